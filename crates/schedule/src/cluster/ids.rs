//! What the nodes, platforms and residents of a cluster are called.

/// A node of one cluster, by its place in the order of adding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A platform type of one cluster, by its place in [`Cluster::platforms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlatformId(pub(crate) u16);

impl PlatformId {
    /// The one at `place` of [`Cluster::platforms`]: of the first 65,535.
    pub(crate) fn nth(place: usize) -> Self {
        PlatformId(place as u16)
    }

    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// One application running on one node; never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResidentId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}
