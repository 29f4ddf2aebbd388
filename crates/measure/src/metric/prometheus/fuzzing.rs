//! What a fuzzer calls: pages that a target answers with.

use super::page::Page;

pub(in crate::metric) fn page(text: &str) {
    let Ok(page) = Page::parse(text) else {
        return;
    };
    for sample in &page.samples {
        sample.series();
    }
    for name in page.names() {
        page.type_of(name);
    }
}
