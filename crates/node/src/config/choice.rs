//! Values that are one of a few names.

use quorate_core::protocols::snow::parameters::Parameters;
use quorate_crypto::SchemeName;

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All of them, in the order of [`Self::NAMES`].
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

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
        /// Basic HotStuff: four phases for each block (Yin et al. 2019, section 4).
        HotstuffBasic = "hotstuff-basic",
        /// Chained HotStuff: each block is a phase of those before it (section 5); commits by
        /// the three-chain.
        HotstuffChained = "hotstuff-chained",
        /// Chained HotStuff whose vote looks at views alone (Jehl 2021).
        HotstuffSimplified = "hotstuff-simplified",
        /// Fast-HotStuff: commits by the two-chain; after a failed view the leader proves the
        /// highest certificate of a quorum (Jalalzai et al. 2020).
        HotstuffFast = "hotstuff-fast",
        /// The two-chain of Jolteon and DiemBFT v4: time-out certificates prove it.
        HotstuffTwoChain = "hotstuff-two-chain",
        /// HotStuff-2: the two-chain without proofs; after a failed view the leader waits for
        /// the highest certificate (Malkhi and Nayak 2023).
        Hotstuff2 = "hotstuff-2",
        /// PBFT with a window of blocks under way at once (Castro and Liskov 1999): a stable
        /// primary, three phases.
        Pbft = "pbft",
        /// Snowman: a chain agreed on by sampling; its safety is probabilistic (Team Rocket et al.
        /// 2019).
        Snowman = "snowman",
        /// One leader orders and is believed: no fault is tolerated. For the laboratory.
        LaboratorySequencer = "laboratory-sequencer",
        /// Two message delays where n - 1 replicas vote. For the laboratory.
        LaboratoryTwoDelay = "laboratory-two-delay",
    }
);
choice!(
    /// By what it is known who says something (Bravo, István and Sit, section IV-A). What has to
    /// convince a third party is signed with any: clients' frames, checkpoints, view changes.
    AuthenticationName {
        /// All that replicas say is signed: to each other, and the outcomes that clients are told.
        Signatures = "signatures",
        /// What replicas say to each other is authenticated by the channel; outcomes are signed.
        Macs = "macs",
        /// Outcomes are authenticated by the channel as well.
        MacsToClients = "macs-to-clients",
    }
);
choice!(
    /// How large the samples of Snowman are, and how much agreement suffices: k, α and β
    /// ([`quorate_core::protocols::snow::parameters`]).
    SamplingName {
        /// Those of AvalancheGo for Snowman: k = 20, α = 15, β = 20.
        LaterPractice = "later-practice",
        /// Those of the white paper: k = 10, α = 8, β = 150 (Team Rocket et al. 2019).
        Paper = "paper",
        /// Those of Frosty's analysis of Snowflake+: k = 80, α = 72, β = 12 (Buchwald et al. 2024).
        SnowflakePlus = "snowflake-plus",
    }
);

impl SamplingName {
    /// k, α and β.
    #[must_use]
    pub const fn parameters(self) -> Parameters {
        match self {
            Self::LaterPractice => Parameters::LATER_PRACTICE,
            Self::Paper => Parameters::PAPER,
            Self::SnowflakePlus => Parameters::FROSTY,
        }
    }
}

choice!(
    /// What Snowman does where sampling decides nothing for long
    /// ([`quorate_core::protocols::snow::snowman::frosty`]).
    LivenessName {
        /// It goes on sampling.
        Sampling = "sampling",
        /// A quorum decides, and sampling goes on: Frosty (Buchwald et al. 2024).
        Frosty = "frosty",
    }
);
choice!(
    /// To whom votes go.
    VoteRoute {
        /// To the leader of the next view, who makes the certificate.
        NextLeader = "next-leader",
        /// To all, each of whom makes it.
        Broadcast = "broadcast",
    }
);
choice!(
    /// How replicas leave a view whose leader does not lead.
    PacemakerName {
        /// Time-outs to all; a quorum of them makes a certificate (DiemBFT).
        TimeoutCertificates = "timeout-certificates",
        /// Complaints to the next leader, who tells all: linearly many messages.
        Linear = "linear",
    }
);
choice!(
    /// Who leads a view.
    LeaderName {
        /// View modulo n.
        RoundRobin = "round-robin",
        /// Always the same.
        Fixed = "fixed",
        /// One of those who signed the last committed certificate, recent leaders left out
        /// (Cohen et al. 2022).
        Carousel = "carousel",
        /// Drawn by what each did in the committed history (DiemBFT v4).
        Reputation = "reputation",
    }
);
/// The names of the signature schemes.
pub(super) static SCHEME_NAMES: [&str; SchemeName::ALL.len()] = {
    let mut names = [""; SchemeName::ALL.len()];
    let mut place = 0;
    while place < names.len() {
        names[place] = SchemeName::ALL[place].as_str();
        place += 1;
    }
    names
};

choice!(
    /// The state machine that is replicated.
    Application {
        /// A key-value store with an authenticated state.
        Kv = "kv",
        /// No state beside the log: commands are ordered, and answered with their position.
        Ordering = "ordering",
        /// A state machine of somebody else's program; the table `service` names it.
        Service = "service",
    }
);
choice!(
    /// Where a replica has the application's state. Its own choice: the others cannot tell.
    StateStore {
        /// In memory; at a start it is made again from snapshot and log.
        Memory = "memory",
        /// In a store on disk, from which a start goes on.
        Disk = "disk",
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
    /// How long a view may take.
    TimeoutKind {
        /// The same time always.
        Fixed = "fixed",
        /// Longer with each view that failed since the last commit.
        Exponential = "exponential",
        /// As long as recent views took, by their mean and spread.
        Adaptive = "adaptive",
    }
);
choice!(
    /// How clients' frames reach the replicas that do not have them.
    DisseminationName {
        /// With the proposal, if they are small; who lacks one asks for it.
        Direct = "direct",
        /// Ahead of the proposal, which waits until a quorum holds them.
        Ahead = "ahead",
    }
);
choice!(
    /// Which ancestors travel with a proposal.
    SentAncestors {
        /// None: who lacks one asks for it.
        None = "none",
        /// Those the receiver is not known to have.
        Missing = "missing",
        /// All that are not committed.
        All = "all",
    }
);
choice!(
    /// When votes are verified.
    VoteVerification {
        /// As one batch, once a quorum is there.
        AtQuorum = "at-quorum",
        /// Each when it comes.
        OneByOne = "one-by-one",
    }
);
choice!(
    /// Which cores of the machine the threads of a replica's connections run on.
    Cores {
        /// All that the process may use.
        All = "all",
        /// Its part of those, as all replicas of the cluster run on this machine.
        Share = "share",
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
