//! What a node reads now.

use super::answers::some_of;
use super::event::Event;
use super::state::Answered;
use super::state::Stream;
use crate::admission::node_readings;
use crate::error::StreamError;
use serde_json::json;

impl Stream {
    /// Takes the readings of a node: they may end a veto, so that those who wait are
    /// tried again.
    pub(super) fn node_reading(&mut self, mut event: Event) -> Answered {
        let (name, readings) = match (event.state.take(), event.readings.take()) {
            (Some(_), Some(_)) => {
                let problem = "is given beside `state`; send one of them";
                return Err(StreamError::key("readings", problem));
            }
            (Some(state), None) => {
                // The scheduler may call the node otherwise than its agent does.
                let named = event.name().unwrap_or_else(|_| state.name.clone());
                (named, node_readings(&state))
            }
            (None, Some(readings)) => (event.name()?, readings),
            (None, None) => return Err(event.missing("readings")),
        };
        if self.cluster.id(&name).is_none() {
            let known = self.cluster.ids().map(|node| self.cluster.name(node));
            let known = some_of(known);
            let problem = format!("no node is called `{name}`; known: {known}");
            return Err(StreamError::key("name", problem));
        }
        let available = readings.values().flatten().count();
        self.gate.tell(&name, readings, self.now);
        let answer = json!({"answer": "node-reading", "available": available, "name": name});
        Ok((vec![answer], true))
    }
}
