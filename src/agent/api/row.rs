//! What one row of the table of paths says.
#![cfg_attr(
    not(test),
    allow(dead_code, reason = "a test makes the description of the API")
)]

use super::shared::Shared;
use axum::http::Method;
use axum::routing::MethodRouter;
#[cfg(test)]
use schemars::JsonSchema;
#[cfg(test)]
use schemars::Schema;
#[cfg(test)]
use schemars::SchemaGenerator;
use std::sync::Arc;

/// One path and method.
pub struct Row {
    pub path: &'static str,
    pub method: Method,
    /// What clients that are generated from the description call it.
    pub id: &'static str,
    pub summary: &'static str,
    pub query: &'static [Key],
    /// What the body of the request is, in JSON.
    pub takes: Option<Describe>,
    pub gives: &'static [Content],
    /// Errors of its own, besides those that any path may answer with.
    pub errors: &'static [u16],
    /// Whether it is answered without a token.
    pub open: bool,
    pub handler: fn() -> MethodRouter<Arc<Shared>>,
}

/// Makes the schema of a type; outside of tests it is in the description already.
#[cfg(test)]
pub type Describe = fn(&mut SchemaGenerator) -> Schema;
#[cfg(not(test))]
pub type Describe = fn();

#[cfg(not(test))]
pub fn of<T>() {}

#[cfg(test)]
pub fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// A key of the query.
pub struct Key {
    pub name: &'static str,
    pub about: &'static str,
    pub schema: Describe,
}

/// A form of the answer.
pub struct Content {
    pub media: &'static str,
    /// Absent for what is no JSON.
    pub schema: Option<Describe>,
}

impl Content {
    pub const fn json(schema: Describe) -> Content {
        Content {
            media: "application/json",
            schema: Some(schema),
        }
    }

    pub const fn other(media: &'static str) -> Content {
        Content {
            media,
            schema: None,
        }
    }
}
