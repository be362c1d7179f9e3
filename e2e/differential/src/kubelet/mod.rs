//! The kubelet's image credential providers: one comparison per function that processes text.

mod generate;
mod ours;

use std::fs;
use std::path::Path;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::comparison::{Comparison, Difference, ReferenceProgram};
use crate::document;

/// The function to compare.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum KubeletComparison {
    Name,
    Match,
    Keyring,
    Config,
    Request,
    Response,
    Key,
}

impl KubeletComparison {
    pub(crate) const ALL: [Self; 7] =
        [Self::Name, Self::Match, Self::Keyring, Self::Config, Self::Request, Self::Response, Self::Key];

    /// The oracle's name for it.
    fn ask(self) -> &'static str {
        &self.name()["image-".len()..]
    }
}

impl Comparison for KubeletComparison {
    fn name(&self) -> &'static str {
        match self {
            Self::Name => "image-name",
            Self::Match => "image-match",
            Self::Keyring => "image-keyring",
            Self::Config => "image-config",
            Self::Request => "image-request",
            Self::Response => "image-response",
            Self::Key => "image-key",
        }
    }

    fn reference(&self) -> ReferenceProgram {
        ReferenceProgram::OracleProcess("kubelet")
    }

    fn generate(&self, rng: &mut Rng) -> Value {
        generate::case(*self, rng)
    }

    fn query(&self, case: &Value, dir: &Path) -> Value {
        let mut query = case.clone();
        query["ask"] = self.ask().into();
        if let Some(members) = query.as_object_mut() {
            let style = members.remove("style");
            let style = style.as_ref().and_then(Value::as_str).unwrap_or("json");
            if let Some(doc) = members.remove("doc") {
                let text = document::write(&doc, style);
                if *self == Self::Config {
                    let path = dir.join("config.yaml");
                    fs::write(&path, text).expect("a file");
                    members.insert("path".to_owned(), path.to_string_lossy().into());
                } else {
                    members.insert("answer".to_owned(), text.into());
                }
            }
        }
        query
    }

    fn ours(&self, query: &Value) -> (Value, String) {
        (ours::answer(*self, query).unwrap_or_else(|| json!({"error": ""})), String::new())
    }

    fn plain(&self, theirs: &mut Value) {
        if let Some(error) = theirs.get_mut("error") {
            *error = "".into();
        }
        // An invalid pattern matches nothing.
        if *self == Self::Match && theirs.get("error").is_some() {
            *theirs = json!({"matched": false});
        }
        // An expired entry counts as not cached.
        if theirs["nanoseconds"].as_i64().is_some_and(|lifetime| lifetime < 0) {
            theirs["nanoseconds"] = 0.into();
        }
    }

    fn deliberate(&self, _: &Value, difference: &Difference<'_>) -> Option<&'static str> {
        let fields =
            |answer: &Value| -> Option<Vec<String>> { serde_json::from_value(answer.get("fields")?.clone()).ok() };
        let ours = fields(difference.ours)?;
        let has = |fields: &[String], name: &str| fields.iter().any(|field| field == name);
        let error = difference.theirs["error"].as_str().unwrap_or_default();
        if error.starts_with("duplicate provider name") && has(&ours, "providers.name") {
            return Some("two providers with one name do not hide other mistakes (B42)");
        }
        let mut theirs = fields(difference.theirs)?;
        let unknown = has(&theirs, "providers.apiVersion");
        theirs.retain(|field| field != "providers.tokenAttributes");
        (unknown && theirs == ours)
            .then_some("that a token needs v1 is said to whoever asks in another version, not in none")
    }

    fn plant(&self, query: &mut Value) {
        let other = |text: &str, from: &str, to: &str| Value::from(text.replacen(from, to, 1));
        match self {
            Self::Name => query["image"] = other(query["image"].as_str().unwrap_or_default(), "library/", ""),
            Self::Match => query["pattern"] = other(query["pattern"].as_str().unwrap_or_default(), ":443", ""),
            Self::Keyring => {
                if let Some(keys) = query["keys"].as_array_mut() {
                    keys.reverse();
                }
            }
            Self::Config => query["path"] = "/nonexistent".into(),
            Self::Request => query["image"] = other(query["image"].as_str().unwrap_or_default(), "<", ""),
            Self::Response => {
                query["answer"] = other(query["answer"].as_str().unwrap_or_default(), "Registry", "Image")
            }
            Self::Key => query["byToken"] = false.into(),
        }
    }

    fn kind(&self, theirs: &Value) -> String {
        let nothing = theirs["users"].as_array().is_some_and(Vec::is_empty) || theirs["matched"] == false;
        match theirs.get("error") {
            Some(_) => "refused",
            None if nothing => "nothing",
            None => "answered",
        }
        .to_owned()
    }
}
