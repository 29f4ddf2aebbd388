//! Servers of the papers' clusters, and what differs between their types.
//!
//! Counts and cores are the papers'; how a type presses on what it shares and
//! how fast it is per core are ours, as no paper gives them.

use crate::truth::TruePlatform;
use jostle_profile::resource::Resource;
use jostle_schedule::Node;
use jostle_schedule::predict::Lanes;

/// One type of server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerType {
    pub name: &'static str,
    /// Types of one family share their microarchitecture.
    pub family: &'static str,
    pub cpus: u32,
    pub memory_gib: u32,
    pub count: u32,
    /// Speed of one core on work that needs nothing else, the best near 1.
    pub core_speed: f64,
    /// All second-level caches together, in MiB.
    pub l2_mib: f64,
    /// Last-level caches of all sockets together, in MiB.
    pub llc_mib: f64,
    /// Memory bandwidth of all sockets together, in GB/s.
    pub memory_gbs: f64,
    /// Storage and network speed, 1 = a server of the local cluster.
    pub io_speed: f64,
}

/// A mix of servers that a paper used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardware {
    /// The name used in scenarios.
    pub name: &'static str,
    pub summary: &'static str,
    pub types: &'static [ServerType],
}

macro_rules! server_types {
    ($($name:literal $family:literal $cpus:literal $memory:literal x $count:literal:
       $speed:literal $l2:literal $llc:literal $gbs:literal $io:literal;)*) => {
        &[$(ServerType {
            name: $name, family: $family, cpus: $cpus, memory_gib: $memory, count: $count,
            core_speed: $speed, l2_mib: $l2, llc_mib: $llc, memory_gbs: $gbs, io_speed: $io,
        }),*]
    };
}

/// Every mix there is.
pub const HARDWARE: &[Hardware] = &[
    // Names, cores, memory, LLC and counts: dissertation, table 3.3. LLC there
    // is per socket. Bandwidth by the type of memory and number of channels.
    Hardware {
        name: "paragon-40",
        summary: "Paragon's local cluster: 40 servers of 10 types, 178 cores",
        types: server_types! {
            "Xeon L5609" "westmere" 8 24 x 1: 0.93 2.0 24.0 51.0 1.0;
            "Xeon X5650" "westmere" 12 24 x 2: 0.98 3.0 24.0 64.0 1.0;
            "Xeon X5670" "westmere" 12 48 x 2: 0.99 3.0 24.0 64.0 1.0;
            "Xeon L5640" "westmere" 12 48 x 1: 0.96 3.0 24.0 64.0 1.0;
            "Xeon MP" "netburst" 4 8 x 5: 1.00 4.0 4.0 10.6 1.0;
            "Xeon E5345" "clovertown" 4 32 x 8: 1.00 8.0 8.0 10.6 1.0;
            "Xeon E5335" "clovertown" 4 16 x 8: 0.985 8.0 8.0 10.6 1.0;
            "Opteron 240" "k8" 2 4 x 7: 0.72 2.0 2.0 10.6 0.9;
            "Atom 330" "atom" 2 4 x 5: 0.52 1.0 1.0 4.2 0.8;
            "Atom D510" "atom" 2 8 x 1: 0.54 1.0 1.0 5.3 0.8;
        },
    },
    // The dissertation (section 3.4) gives 14 types, 1,000 servers and 4,960
    // cores, "dual-core" to "quad-socket"; the mix is ours.
    Hardware {
        name: "ec2-1000",
        summary: "Paragon's large cluster: 1,000 servers of 14 types, 4,960 cores",
        types: server_types! {
            "m1.large" "harpertown" 2 8 x 160: 0.82 6.0 6.0 8.0 0.9;
            "m1.xlarge" "harpertown" 4 15 x 130: 0.82 12.0 12.0 12.0 1.0;
            "m2.xlarge" "nehalem" 2 17 x 110: 0.92 1.0 6.0 13.0 0.9;
            "m2.2xlarge" "nehalem" 4 34 x 90: 0.92 1.0 8.0 18.0 1.0;
            "m2.4xlarge" "nehalem" 8 68 x 41: 0.92 2.0 16.0 34.0 1.1;
            "m3.xlarge" "sandybridge" 4 15 x 100: 0.97 1.0 10.0 20.0 1.0;
            "m3.2xlarge" "sandybridge" 8 30 x 40: 0.97 2.0 20.0 38.0 1.1;
            "c1.medium" "harpertown" 2 2 x 150: 0.86 6.0 6.0 8.0 0.9;
            "c1.xlarge" "harpertown" 8 7 x 30: 0.86 12.0 12.0 16.0 1.0;
            "c3.xlarge" "ivybridge" 4 8 x 80: 1.00 1.0 12.0 22.0 1.1;
            "c3.4xlarge" "ivybridge" 16 30 x 20: 1.00 4.0 25.0 51.0 1.2;
            "hi1.4xlarge" "nehalem" 16 60 x 16: 0.92 4.0 24.0 51.0 1.4;
            "cc2.8xlarge" "sandybridge" 32 60 x 18: 0.98 8.0 40.0 102.0 1.3;
            "cr1.8xlarge" "sandybridge" 32 244 x 15: 0.98 8.0 40.0 102.0 1.3;
        },
    },
    // The dissertation (section 7.6.3) gives 10 types of 4 to 32 cores, 400
    // servers and 4,178 cores; the mix is ours.
    Hardware {
        name: "tarcil-400",
        summary: "Tarcil's large cluster: 400 servers of 10 types, 4,178 cores",
        types: server_types! {
            "t4-a" "harpertown" 4 15 x 69: 0.84 12.0 12.0 12.0 0.9;
            "t4-b" "sandybridge" 4 15 x 40: 0.97 1.0 10.0 20.0 1.0;
            "t6" "nehalem" 6 24 x 31: 0.92 1.5 12.0 25.0 1.0;
            "t8-a" "nehalem" 8 34 x 60: 0.92 2.0 16.0 34.0 1.0;
            "t8-b" "ivybridge" 8 30 x 53: 1.00 2.0 20.0 38.0 1.1;
            "t12" "westmere" 12 48 x 33: 0.95 3.0 24.0 64.0 1.0;
            "t16-a" "nehalem" 16 60 x 40: 0.92 4.0 24.0 51.0 1.2;
            "t16-b" "ivybridge" 16 60 x 30: 1.00 4.0 25.0 51.0 1.2;
            "t24" "ivybridge" 24 96 x 34: 0.99 6.0 30.0 76.0 1.2;
            "t32" "sandybridge" 32 120 x 10: 0.98 8.0 40.0 102.0 1.3;
        },
    },
];

/// The mix called `name`.
pub fn hardware(name: &str) -> Option<&'static Hardware> {
    HARDWARE.iter().find(|hardware| hardware.name == name)
}

/// The server type called `name`, of any mix.
pub fn server_type(name: &str) -> Option<&'static ServerType> {
    let mut all = HARDWARE.iter().flat_map(|hardware| hardware.types);
    all.find(|kind| kind.name == name)
}

/// The type on which one point of caused pressure is one point.
pub const REFERENCE: ServerType = HARDWARE[0].types[5];

/// How much less capacity tells on pressure: half the cache makes 2^0.15 = 1.11
/// times the pressure, not twice, as those who press are slowed too.
const PRESSURE_EXPONENT: f64 = 0.15;

impl ServerType {
    /// Points of pressure that one point of `c` makes here, per resource:
    /// `(reference's capacity / own)^0.15`.
    pub fn pressure_scale(&self) -> Lanes<f32> {
        std::array::from_fn(|lane| {
            let of = |kind: &ServerType| match Resource::ALL[lane] {
                Resource::L2Capacity | Resource::L2Bandwidth => kind.l2_mib,
                Resource::LlcCapacity => kind.llc_mib,
                Resource::LlcBandwidth => kind.llc_mib.sqrt() * f64::from(kind.cpus).sqrt(),
                Resource::MemoryCapacity => f64::from(kind.memory_gib),
                Resource::MemoryBandwidth => kind.memory_gbs,
                Resource::Interconnect => f64::from(kind.cpus),
                Resource::StorageCapacity
                | Resource::StorageBandwidth
                | Resource::NetworkBandwidth => kind.io_speed,
                _ => 1.0,
            };
            (of(&REFERENCE) / of(self)).powf(PRESSURE_EXPONENT) as f32
        })
    }

    /// The type as it really is.
    pub fn platform(&self) -> TruePlatform {
        TruePlatform {
            name: self.name.into(),
            pressure_scale: self.pressure_scale(),
        }
    }
}

impl Hardware {
    /// Servers of all types.
    pub fn servers(&self) -> u32 {
        self.types.iter().map(|kind| kind.count).sum()
    }

    /// How many of each type there are among `servers` of this mix: the same
    /// shares, by largest remainder, ties to the earlier type.
    pub fn counts(&self, servers: u32) -> Vec<u32> {
        let all = u64::from(self.servers());
        let share = |kind: &ServerType| u64::from(kind.count) * u64::from(servers);
        let whole = self.types.iter().map(|kind| (share(kind) / all) as u32);
        let mut counts: Vec<u32> = whole.collect();
        let mut order: Vec<usize> = (0..self.types.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(share(&self.types[*index]) % all));
        let left = servers - counts.iter().sum::<u32>();
        for index in order.into_iter().take(left as usize) {
            counts[index] += 1;
        }
        counts
    }

    /// `servers` nodes of this mix, type by type.
    pub fn nodes(&self, servers: u32) -> Vec<Node> {
        let node = |kind: &ServerType, number: u32| Node {
            name: format!("{}-{number}", kind.name.to_lowercase().replace(' ', "-")),
            cpus: kind.cpus,
            memory_bytes: u64::from(kind.memory_gib) << 30,
            platform: Some(kind.name.into()),
            shares_cpus: false,
        };
        let counts = self.types.iter().zip(self.counts(servers));
        counts
            .flat_map(|(kind, count)| (1..=count).map(move |number| node(kind, number)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_schedule::predict::lane;

    #[test]
    fn the_mixes_have_the_papers_servers_types_and_cores() {
        for (name, servers, types, cpus) in [
            ("paragon-40", 40, 10, 178),
            ("ec2-1000", 1000, 14, 4960),
            ("tarcil-400", 400, 10, 4178),
        ] {
            let mix = hardware(name).unwrap();
            assert_eq!(mix.servers(), servers, "{name}");
            assert_eq!(mix.types.len(), types, "{name}");
            let nodes = mix.nodes(servers);
            assert_eq!(nodes.len() as u32, servers);
            assert_eq!(nodes.iter().map(|node| node.cpus).sum::<u32>(), cpus);
        }
        assert!(hardware("elsewhere").is_none());
    }

    #[test]
    fn a_smaller_cluster_keeps_the_shares() {
        let mix = hardware("ec2-1000").unwrap();
        let counts = mix.counts(200);
        assert_eq!(counts.iter().sum::<u32>(), 200);
        for (kind, count) in mix.types.iter().zip(counts) {
            assert!(
                f64::from(count.abs_diff(kind.count / 5)) <= 1.0,
                "{}",
                kind.name
            );
        }
        assert_eq!(mix.counts(1).iter().sum::<u32>(), 1);
    }

    #[test]
    fn less_capacity_makes_more_pressure() {
        let scale = |name: &str, resource: &str| {
            server_type(name).unwrap().pressure_scale()[lane(resource).unwrap()]
        };
        assert_eq!(scale("Xeon E5345", "llc-capacity"), 1.0);
        // A third of X5650's cache: 3^-0.15 there, 8^0.15 on an Atom.
        assert!((scale("Xeon X5650", "llc-capacity") - 0.848).abs() < 1e-3);
        assert!((scale("Atom 330", "llc-capacity") - 1.366).abs() < 1e-3);
        assert!(scale("Xeon X5650", "memory-bandwidth") < 1.0);
        assert_eq!(scale("Atom 330", "int"), 1.0);
    }
}
