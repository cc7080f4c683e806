//! Presets: networks with a name.
//!
//! Round-trip times between places are published measurements; half of one is the delay in each
//! direction. No preset has jitter, loss or a bandwidth of its own: add them with `link`.

use std::time::Duration;

use crate::link::Link;

/// The names of the presets, with a description.
pub const ALL: [(&str, &str); 4] = [
    ("lan", "one machine room: 0.05 ms each way between any two"),
    ("wan-100ms", "100 ms each way between any two, so that a latency counts message delays"),
    ("4-regions-us", "Virginia, Iowa, Texas, California: 29 to 74 ms round trip"),
    ("20-cities", "twenty cities on six continents: 12 to 347 ms round trip"),
];

/// A preset.
#[derive(Clone, Copy, Debug)]
pub enum Preset {
    /// All nodes have the same distance from each other.
    Uniform {
        /// The delay in each direction.
        delay: Duration,
    },
    /// Nodes are at places.
    Places(&'static Places),
}

/// Places and the round-trip times between them.
#[derive(Debug)]
pub struct Places {
    /// The names of the places.
    pub names: &'static [&'static str],
    /// The round trip between place i and each one before it, in milliseconds.
    pub rtt_ms: &'static [&'static [f64]],
}

impl Preset {
    /// The preset called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            // Within a data centre of IBM Cloud the round trip between two machines is 0.08 to 0.10
            // ms (network-latency.md of github.com/ibm-cloud-docs/vpc, "Inter-AZ latency",
            // diagonal, August 2024).
            "lan" => Some(Self::Uniform { delay: Duration::from_micros(50) }),
            "wan-100ms" => Some(Self::Uniform { delay: Duration::from_millis(100) }),
            "4-regions-us" => Some(Self::Places(&FOUR_REGIONS_US)),
            "20-cities" => Some(Self::Places(&TWENTY_CITIES)),
            _ => None,
        }
    }
}

/// The round trip between two machines in different data centres of one place: 1.6 to 2.4 ms by the
/// tables of availability zones in the source of `lan`.
pub const WITHIN_PLACE_RTT_MS: f64 = 2.0;

/// The link between two places of a preset.
pub(crate) fn link_between(places: &Places, from: usize, to: usize) -> Link {
    let (low, high) = (from.min(to), from.max(to));
    let found = places.rtt_ms.get(high).and_then(|row| row.get(low));
    let rtt_ms = found.copied().unwrap_or(WITHIN_PLACE_RTT_MS);
    Link::delay(Duration::from_secs_f64(rtt_ms / 2e3))
}

// Both tables: Microsoft, "Azure network round-trip latency statistics", the 95th percentile over
// 30 days to 30 July 2026 (learn.microsoft.com/azure/networking/azure-network-latency;
// github.com/MicrosoftDocs/azure-docs, articles/networking/azure-network-latency.md). The two
// directions differ by probe; the smaller value is used.

/// East US, Central US, South Central US, West US.
static FOUR_REGIONS_US: Places = Places {
    names: &["Virginia", "Iowa", "Texas", "California"],
    rtt_ms: &[&[], &[35.0], &[44.0, 29.0], &[74.0, 41.0, 44.0]],
};

/// East US, North Central US, South Central US, West US, Canada Central, Brazil South, North
/// Europe, UK South, France Central, Germany West Central, Italy North, Poland Central, South
/// Africa North, UAE North, Central India, Southeast Asia, East Asia, Korea Central, Japan East,
/// Australia East.
static TWENTY_CITIES: Places = Places {
    names: &[
        "Virginia",
        "Chicago",
        "San Antonio",
        "San Francisco",
        "Toronto",
        "Sao Paulo",
        "Dublin",
        "London",
        "Paris",
        "Frankfurt",
        "Milan",
        "Warsaw",
        "Johannesburg",
        "Dubai",
        "Pune",
        "Singapore",
        "Hong Kong",
        "Seoul",
        "Tokyo",
        "Sydney",
    ],
    rtt_ms: &[
        &[],
        &[24.0],
        &[44.0, 41.0],
        &[74.0, 53.0, 44.0],
        &[21.0, 22.0, 57.0, 70.0],
        &[119.0, 141.0, 142.0, 170.0, 132.0],
        &[74.0, 94.0, 112.0, 137.0, 78.0, 176.0],
        &[80.0, 100.0, 120.0, 144.0, 83.0, 184.0, 15.0],
        &[90.0, 108.0, 118.0, 152.0, 91.0, 192.0, 20.0, 12.0],
        &[97.0, 114.0, 131.0, 157.0, 100.0, 199.0, 28.0, 19.0, 14.0],
        &[105.0, 120.0, 142.0, 167.0, 105.0, 206.0, 40.0, 32.0, 25.0, 18.0],
        &[104.0, 125.0, 143.0, 168.0, 114.0, 211.0, 38.0, 34.0, 33.0, 26.0, 31.0],
        &[225.0, 241.0, 250.0, 278.0, 235.0, 326.0, 178.0, 169.0, 165.0, 172.0, 179.0, 198.0],
        &[
            190.0, 203.0, 228.0, 257.0, 187.0, 293.0, 131.0, 122.0, 116.0, 122.0, 115.0, 139.0,
            104.0,
        ],
        &[
            214.0, 232.0, 246.0, 224.0, 216.0, 320.0, 159.0, 150.0, 147.0, 150.0, 144.0, 169.0,
            134.0, 35.0,
        ],
        &[
            229.0, 213.0, 203.0, 171.0, 226.0, 337.0, 236.0, 183.0, 175.0, 179.0, 182.0, 201.0,
            190.0, 90.0, 58.0,
        ],
        &[
            207.0, 191.0, 177.0, 152.0, 205.0, 315.0, 265.0, 274.0, 278.0, 244.0, 245.0, 247.0,
            272.0, 120.0, 95.0, 40.0,
        ],
        &[
            191.0, 174.0, 164.0, 133.0, 189.0, 289.0, 255.0, 262.0, 266.0, 271.0, 276.0, 285.0,
            250.0, 153.0, 126.0, 71.0, 41.0,
        ],
        &[
            165.0, 150.0, 140.0, 109.0, 165.0, 265.0, 232.0, 237.0, 241.0, 246.0, 256.0, 258.0,
            254.0, 155.0, 129.0, 74.0, 51.0, 35.0,
        ],
        &[
            206.0, 189.0, 172.0, 141.0, 207.0, 298.0, 272.0, 277.0, 279.0, 290.0, 285.0, 300.0,
            347.0, 179.0, 151.0, 98.0, 127.0, 132.0, 105.0,
        ],
    ],
};
