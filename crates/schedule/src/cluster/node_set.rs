//! Sets of nodes and lists that keep their members' places.

use crate::cluster::ids::NodeId;

/// A set of nodes, one bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSet {
    words: Vec<u64>,
}

impl NodeSet {
    pub fn contains(&self, node: NodeId) -> bool {
        self.words
            .get(node.index() / 64)
            .is_some_and(|word| word >> (node.index() % 64) & 1 == 1)
    }

    pub fn insert(&mut self, node: NodeId) {
        let word = node.index() / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (node.index() % 64);
    }

    pub fn remove(&mut self, node: NodeId) {
        if let Some(word) = self.words.get_mut(node.index() / 64) {
            *word &= !(1 << (node.index() % 64));
        }
    }

    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Calls `look` with each member that is in `other` too, or with each when
    /// there is none; ascending.
    pub fn each_also_in(&self, other: Option<&NodeSet>, mut look: impl FnMut(NodeId)) {
        for (at, word) in self.words.iter().enumerate() {
            let mask = other.map_or(u64::MAX, |other| other.words.get(at).copied().unwrap_or(0));
            members(at, word & mask).for_each(&mut look);
        }
    }

    /// Ascending.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> {
        let words = self.words.iter().enumerate();
        words.flat_map(|(at, word)| members(at, *word))
    }
}

/// The nodes of the bits of word `at`, ascending.
#[inline]
fn members(at: usize, word: u64) -> impl Iterator<Item = NodeId> {
    let mut left = word;
    std::iter::from_fn(move || {
        let bit = (left != 0).then(|| left.trailing_zeros())?;
        left &= left - 1;
        Some(NodeId((at * 64) as u32 + bit))
    })
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut set = NodeSet::default();
        for node in nodes {
            set.insert(node);
        }
        set
    }
}
