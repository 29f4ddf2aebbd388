//! Resources as positions in fixed-size arrays.

use jostle_profile::resource::Domain;
use jostle_profile::resource::Resource;

/// How many resources there are.
pub const LANES: usize = Resource::ALL.len();

/// One value per resource, in the order of [`Resource::ALL`].
pub type Lanes<T> = [T; LANES];

/// The position of `resource`; `None` for one that this version does not know.
pub fn lane(resource: &str) -> Option<usize> {
    let known: Result<Resource, _> = resource.parse();
    known.ok().map(|resource| resource as usize)
}

/// The resource at `lane`, by the name used in profiles.
///
/// # Panics
///
/// When `lane` is not below [`LANES`].
pub fn resource_id(lane: usize) -> &'static str {
    Resource::ALL[lane].id()
}

/// True for what belongs to one core or to the L2 of a group of cores: it is
/// shared only by those who take turns on CPUs.
pub fn core_private(lane: usize) -> bool {
    matches!(
        Resource::ALL[lane].row().domain,
        Domain::LogicalCpu | Domain::PhysicalCore | Domain::L2Group
    )
}

/// A set of resources, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LaneSet(u32);

const _: () = assert!(LANES <= 32, "a LaneSet has 32 bits");

impl LaneSet {
    pub const EMPTY: LaneSet = LaneSet(0);
    pub const ALL: LaneSet = LaneSet(((1u64 << LANES) - 1) as u32);

    pub fn contains(self, lane: usize) -> bool {
        self.0 >> lane & 1 == 1
    }

    pub fn insert(&mut self, lane: usize) {
        self.0 |= 1 << lane;
    }

    pub fn remove(&mut self, lane: usize) {
        self.0 &= !(1 << lane);
    }

    pub fn and(self, other: LaneSet) -> LaneSet {
        LaneSet(self.0 & other.0)
    }

    pub fn or(self, other: LaneSet) -> LaneSet {
        LaneSet(self.0 | other.0)
    }

    pub fn without(self, other: LaneSet) -> LaneSet {
        LaneSet(self.0 & !other.0)
    }

    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The lanes whose bits are set; bits beyond [`LANES`] are dropped.
    pub fn from_bits(bits: u32) -> LaneSet {
        LaneSet(bits & LaneSet::ALL.0)
    }

    pub fn bits(self) -> u32 {
        self.0
    }

    /// The lanes in the set, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            (left != 0).then(|| {
                let lane = left.trailing_zeros() as usize;
                left &= left - 1;
                lane
            })
        })
    }
}

impl FromIterator<usize> for LaneSet {
    fn from_iter<I: IntoIterator<Item = usize>>(lanes: I) -> Self {
        let mut set = LaneSet::EMPTY;
        for lane in lanes {
            set.insert(lane);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_was_put_in() {
        let set: LaneSet = [0, 5, LANES - 1].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 5, LANES - 1]);
        assert_eq!(set.len(), 3);
        assert!(!set.contains(4));
        assert_eq!(LaneSet::ALL.iter().count(), LANES);
        assert_eq!(set.without(set), LaneSet::EMPTY);
    }

    #[test]
    fn every_resource_has_a_lane_and_back() {
        for (index, resource) in Resource::ALL.iter().enumerate() {
            assert_eq!(lane(resource.id()), Some(index));
            assert_eq!(resource_id(index), resource.id());
        }
        assert_eq!(lane("elsewhere"), None);
    }
}
