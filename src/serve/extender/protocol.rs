//! What kube-scheduler sends and expects: extender v1.
//!
//! Go matches the names of fields without regard to case, and older versions wrote
//! them in lower case; both are read. Fields that are not known are left aside.

use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The annotation that names the profile of a pod.
pub const ANNOTATION: &str = "jostle.dev/profile";

/// `ExtenderArgs`.
#[derive(Debug, Deserialize)]
pub struct Request<'a> {
    #[serde(rename = "Pod", alias = "pod")]
    pub pod: Option<Pod>,
    /// Whole nodes, where the scheduler believes that the extender keeps none.
    #[serde(rename = "Nodes", alias = "nodes", borrow, default)]
    pub nodes: Option<NodeList<'a>>,
    /// Names only, with `nodeCacheCapable: true`.
    #[serde(
        rename = "NodeNames",
        alias = "nodeNames",
        alias = "nodenames",
        borrow,
        default
    )]
    pub node_names: Option<Vec<Text<'a>>>,
}

/// A string that is borrowed from the request where it has no escapes.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// Nodes as they came, to be given back untouched.
#[derive(Debug, Default, Deserialize)]
pub struct NodeList<'a> {
    #[serde(borrow, default)]
    pub items: Option<Vec<&'a RawValue>>,
}

/// What is read of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Pod {
    #[serde(default)]
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: Spec,
    #[serde(default)]
    pub status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    /// RFC 3339.
    pub creation_timestamp: Option<String>,
    pub resource_version: String,
    pub annotations: Option<Annotations>,
    pub labels: Option<BTreeMap<String, String>>,
}

/// The one that is ours.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Annotations {
    #[serde(rename = "jostle.dev/profile", default)]
    pub profile: Option<Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    pub node_name: Option<String>,
    pub containers: Option<Vec<Container>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Container {
    pub resources: Option<Resources>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Resources {
    pub requests: Option<BTreeMap<String, Value>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    pub phase: String,
}

impl Pod {
    /// `NAMESPACE/NAME`.
    pub fn title(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }

    /// What tells it from all others: its uid, or its name where it has none.
    pub fn key(&self) -> String {
        match self.metadata.uid.as_str() {
            "" => self.title(),
            uid => uid.to_string(),
        }
    }

    /// The name of its profile; `None` where it has no annotation.
    ///
    /// # Errors
    /// The annotation is no name, in words.
    pub fn profile(&self) -> Result<Option<&str>, String> {
        let annotations = self.metadata.annotations.as_ref();
        match annotations.and_then(|it| it.profile.as_ref()) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(name)) if !name.is_empty() && name.len() <= 253 => Ok(Some(name)),
            Some(_) => Err(format!(
                "the annotation {ANNOTATION} is not a name of at most 253 bytes"
            )),
        }
    }

    /// CPUs it asks for, at least 1.
    pub fn cpus(&self) -> u32 {
        let containers = self.spec.containers.iter().flatten();
        let requests = containers.filter_map(|it| it.resources.as_ref()?.requests.as_ref());
        let cpus: f64 = requests.filter_map(|it| quantity(it.get("cpu")?)).sum();
        cpus.ceil().clamp(1.0, 1e6) as u32
    }
}

/// A quantity of CPUs: `2`, `500m`, `1.5`.
pub fn quantity(value: &Value) -> Option<f64> {
    let text = match value {
        Value::String(text) => text.as_str(),
        Value::Number(number) => return number.as_f64().filter(|it| *it >= 0.0),
        _ => return None,
    };
    let (number, scale) = match text.as_bytes().last()? {
        b'n' => (&text[..text.len() - 1], 1e-9),
        b'u' => (&text[..text.len() - 1], 1e-6),
        b'm' => (&text[..text.len() - 1], 1e-3),
        b'k' => (&text[..text.len() - 1], 1e3),
        _ => (text, 1.0),
    };
    let number: f64 = number.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * scale)
}

/// The name of a node.
///
/// # Errors
/// It has none.
pub fn node_name(node: &RawValue) -> Result<String, serde_json::Error> {
    #[derive(Deserialize)]
    struct Named {
        metadata: Name,
    }
    #[derive(Deserialize)]
    struct Name {
        name: String,
    }
    serde_json::from_str::<Named>(node.get()).map(|named| named.metadata.name)
}

/// `ExtenderFilterResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FilterResult<'a> {
    pub nodes: Option<PassedNodes<'a>>,
    pub node_names: Option<Vec<&'a str>>,
    /// Why each of the others was refused.
    pub failed_nodes: BTreeMap<&'a str, String>,
    pub error: &'static str,
}

#[derive(Debug, Serialize)]
pub struct PassedNodes<'a> {
    pub items: Vec<&'a RawValue>,
}

/// `HostPriority`.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HostPriority<'a> {
    pub host: &'a str,
    /// 0 to 10.
    pub score: u8,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_spelling_and_null_is_read() {
        for text in [
            r#"{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a","b"]}"#,
            r#"{"pod":{"metadata":{"name":"p"}},"nodenames":["a","b"],"more":1}"#,
            r#"{"Pod":{"metadata":{"name":"p","annotations":null},"spec":{"containers":null}},"nodeNames":["a","\u0062"]}"#,
        ] {
            let request: Request = serde_json::from_str(text).expect(text);
            let names: Vec<&str> = request
                .node_names
                .iter()
                .flatten()
                .map(|it| &*it.0)
                .collect();
            assert_eq!(names, ["a", "b"]);
            assert_eq!(request.pod.expect("a pod").metadata.name, "p");
        }
        let text = r#"{"Pod":null,"Nodes":{"metadata":{},"items":null},"NodeNames":null}"#;
        let request: Request = serde_json::from_str(text).expect("nulls");
        assert!(request.pod.is_none() && request.nodes.expect("a list").items.is_none());
    }

    #[test]
    fn annotations_are_names_or_wrong() {
        let pod = |profile: Value| -> Pod {
            let annotations = json!({ANNOTATION: profile, "other": "x"});
            serde_json::from_value(json!({"metadata": {"annotations": annotations}})).expect("pod")
        };
        assert_eq!(pod(json!("redis")).profile(), Ok(Some("redis")));
        assert_eq!(pod(json!(null)).profile(), Ok(None));
        assert_eq!(Pod::default().profile(), Ok(None));
        for wrong in [json!(""), json!(7), json!({"a": 1}), json!("x".repeat(300))] {
            assert!(pod(wrong).profile().is_err());
        }
    }

    #[test]
    fn cpus_are_summed_and_rounded_up() {
        let pod = |cpus: Value| -> Pod {
            let containers: Vec<Value> = cpus
                .as_array()
                .expect("a list")
                .iter()
                .map(|cpu| json!({"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}))
                .collect();
            serde_json::from_value(json!({"spec": {"containers": containers}})).expect("pod")
        };
        assert_eq!(pod(json!(["500m", "1"])).cpus(), 2);
        assert_eq!(pod(json!(["2", 1.5])).cpus(), 4);
        assert_eq!(pod(json!(["much", "-3", {}])).cpus(), 1);
        assert_eq!(pod(json!(["1e300"])).cpus(), 1_000_000);
        assert_eq!(pod(json!([])).cpus(), 1);
    }
}
