//! The description of the API, OpenAPI 3.1: a file that the test here makes from the table of
//! paths and the types of the answers.

/// The document.
pub const TEXT: &str = include_str!("openapi.json");

#[cfg(test)]
mod tests {
    use super::super::routes::ROWS;
    use super::super::row::Content;
    use super::super::row::Row;
    use super::TEXT;
    use crate::http::answer::ErrorBody;
    use jostle_profile::layout;
    use schemars::SchemaGenerator;
    use schemars::generate::SchemaSettings;
    use serde_json::Map;
    use serde_json::Value;
    use serde_json::json;

    /// Errors that any path may answer with.
    const ANYWHERE: &[u16] = &[400, 401, 405, 408, 431];

    /// The document, for `rows`.
    fn made(rows: &[Row]) -> Value {
        let mut settings = SchemaSettings::draft2020_12();
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
        let mut generator = settings.into_generator();
        let mut paths = Map::new();
        for row in rows {
            let methods = paths.entry(row.path).or_insert_with(|| json!({}));
            methods[row.method.as_str().to_lowercase()] = operation(row, &mut generator);
        }
        // The generator names it where it is used; clients want it by its own name.
        generator.subschema_for::<ErrorBody>();
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Jostle agent",
                "version": env!("CARGO_PKG_VERSION"),
                "description": "The state of one node: its workloads, how much pressure they \
                    tolerate and cause, and whether another one fits. A number that could not be \
                    read is an object with the key `unavailable` and the reason.",
                "license": { "name": "MIT OR Apache-2.0" }
            },
            "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
            "paths": paths,
            "components": {
                "schemas": generator.take_definitions(true),
                "securitySchemes": {
                    "token": {
                        "type": "http",
                        "scheme": "bearer",
                        "description": "Over TCP, where api.token_file is configured"
                    }
                }
            }
        })
    }

    fn operation(row: &Row, generator: &mut SchemaGenerator) -> Value {
        let mut operation = json!({
            "operationId": row.id,
            "summary": row.summary,
            "responses": responses(row, generator),
            "security": match row.open {
                true => json!([{}]),
                false => json!([{}, { "token": [] }]),
            }
        });
        let parameters = parameters(row, generator);
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if let Some(describe) = row.takes {
            operation["requestBody"] = json!({
                "required": true,
                "content": { "application/json": { "schema": describe(generator) } }
            });
        }
        operation
    }

    fn parameters(row: &Row, generator: &mut SchemaGenerator) -> Vec<Value> {
        let in_path = row.path.split('{').skip(1);
        let in_path = in_path.filter_map(|rest| rest.split_once('}'));
        let in_path = in_path.map(|(name, _)| {
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
        });
        let mut all: Vec<Value> = in_path.collect();
        for key in row.query {
            all.push(json!({
                "name": key.name,
                "in": "query",
                "description": key.about,
                "schema": (key.schema)(generator)
            }));
        }
        all
    }

    fn responses(row: &Row, generator: &mut SchemaGenerator) -> Value {
        let mut content = Map::new();
        for Content { media, schema } in row.gives {
            let described = match schema {
                Some(schema) => json!({ "schema": schema(generator) }),
                None => json!({ "schema": { "type": "string" } }),
            };
            content.insert((*media).into(), described);
        }
        let mut responses = Map::new();
        let done = json!({ "description": "Done", "content": content });
        responses.insert("200".into(), done);
        let error = generator.subschema_for::<ErrorBody>();
        let mut codes: Vec<u16> = [ANYWHERE, row.errors].concat();
        codes.sort_unstable();
        for code in codes {
            let described = json!({
                "description": reason(code),
                "content": { "application/json": { "schema": error } }
            });
            responses.insert(code.to_string(), described);
        }
        responses.into()
    }

    fn reason(code: u16) -> &'static str {
        let status = axum::http::StatusCode::from_u16(code).ok();
        status
            .and_then(|it| it.canonical_reason())
            .unwrap_or("Error")
    }

    #[test]
    fn the_description_is_that_of_the_paths() {
        let made = made(ROWS);
        if std::env::var_os("JOSTLE_RECORD").is_some() {
            let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/agent/api/openapi.json");
            std::fs::write(file, layout::json(&made).unwrap()).unwrap();
        } else {
            let committed: Value = serde_json::from_str(TEXT).unwrap();
            assert!(
                committed == made,
                "refresh it: JOSTLE_RECORD=1 cargo test --lib openapi"
            );
        }
    }
}
