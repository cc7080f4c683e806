//! Values that are one of a few names.

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All names, as configuration files spell them.
            pub const NAMES: &'static [&'static str] = &[$($text),*];

            /// The one called `name`.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

choice!(
    /// The protocol that orders the blocks.
    ProtocolName {
        /// Chained HotStuff: the three-chain rule of the HotStuff paper.
        HotstuffChained = "hotstuff-chained",
    }
);
choice!(
    /// The state machine that is replicated.
    Application {
        /// A key-value store with an authenticated state.
        Kv = "kv",
        /// No state beside the log: commands are ordered, and answered with their position.
        Ordering = "ordering",
    }
);
choice!(
    /// What a replica waits for before anything leaves that rests on its records.
    Durability {
        /// The disk has them (`fdatasync`): survives a power cut.
        Sync = "sync",
        /// The operating system has them: survives the death of the process alone.
        Os = "os",
    }
);
choice!(
    /// How much is logged.
    LogLevel {
        /// Only what stops the process.
        Error = "error",
        /// And what somebody should look at.
        Warn = "warn",
        /// And the milestones: start, stop, changes of leadership.
        Info = "info",
        /// And every view.
        Debug = "debug",
        /// And every message.
        Trace = "trace",
    }
);
choice!(
    /// What a log line looks like.
    LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
);
