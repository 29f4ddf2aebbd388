//! Bytes through the machine's network devices, loopback left out.

use super::counter::Kind;
use super::counter::Owner;
use super::part::Built;
use super::part::Context;
use super::part::row;
use super::read::Files;
use jostle_host::os::network::bytes;
use jostle_host::os::text::Text;

pub(super) fn devices(context: &Context) -> Built {
    const SOURCE: &str = "/proc/net/dev";
    let mut files = Files::default();
    let opened = Text::open(&context.options.root, SOURCE)
        .and_then(|text| files.add(vec![text], 0..2, bytes));
    let rows = ["network-received", "network-sent"]
        .into_iter()
        .enumerate()
        .map(|(cell, name)| {
            row(name, "B/s", Kind::Rate, Owner::Machine, SOURCE).of_cell(cell, 1.0, &opened)
        });
    files.built(rows)
}
