//! Sets of kubeconfig files: loaded, merged, one context resolved.

mod deliberate;
mod generate;
mod ours;

use std::fs;
use std::path::Path;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::comparison::{Comparison, Difference, ReferenceProgram};
use crate::decode::fill;
use crate::document;
use crate::pki::TestPki;

pub(crate) struct ClientCmdComparison<'a> {
    pki: &'a TestPki,
}

impl<'a> ClientCmdComparison<'a> {
    pub(crate) fn new(pki: &'a TestPki) -> Self {
        Self { pki }
    }

    /// Two directories with the same files, to detect the base directory of relative paths.
    fn furnish(&self, dir: &Path) {
        for dir in [dir.to_owned(), dir.join("sub")] {
            fs::create_dir_all(&dir).expect("a directory");
            for (name, pem) in self.pki.names() {
                fs::write(dir.join(name.trim_matches('@')), pem).expect("a file");
            }
            let mark = if dir.ends_with("sub") { "below" } else { "above" };
            fs::write(dir.join("token"), format!("{mark}\n")).expect("a file");
            fs::write(dir.join("empty"), "").expect("a file");
            fs::write(dir.join("junk"), "junk").expect("a file");
        }
    }
}

impl Comparison for ClientCmdComparison<'_> {
    fn name(&self) -> &'static str {
        "clientcmd"
    }

    fn reference(&self) -> ReferenceProgram {
        ReferenceProgram::OracleProcess("clientcmd")
    }

    fn generate(&self, rng: &mut Rng) -> Value {
        generate::case(rng)
    }

    fn query(&self, case: &Value, dir: &Path) -> Value {
        if !dir.join("sub").exists() {
            self.furnish(dir);
        }
        let root = dir.to_string_lossy();
        let mut paths = Vec::new();
        for (index, file) in case["files"].as_array().into_iter().flatten().enumerate() {
            let place = file["place"].as_str().unwrap_or_default();
            let path =
                if place == "sub" { format!("{root}/sub/config{index}") } else { format!("{root}/config{index}") };
            // Removes the files of earlier cases.
            let _ = fs::remove_file(&path);
            if place != "nowhere" {
                let mut doc = file["doc"].clone();
                fill(&mut doc, self.pki);
                let text = document::write(&doc, file["style"].as_str().unwrap_or("yaml")).replace("@ROOT@", &root);
                fs::write(&path, text).expect("a file");
            }
            paths.push(Value::from(path));
        }
        let explicit = case["explicit"].as_u64().and_then(|index| paths.get(usize::try_from(index).ok()?)).cloned();
        let overrides = case["overrides"].to_string().replace("@ROOT@", &root);
        let overrides: Value = serde_json::from_str(&overrides).expect("JSON");
        json!({
            "files": paths,
            "explicit": explicit.unwrap_or_else(|| "".into()),
            "overrides": if overrides.is_object() { overrides } else { json!({}) },
        })
    }

    fn ours(&self, query: &Value) -> (Value, String) {
        ours::answer(query)
    }

    fn plain(&self, theirs: &mut Value) {
        theirs.as_object_mut().expect("an answer").remove("error");
        let Some(config) = theirs.get_mut("config") else { return };
        // A token from a file is trimmed when it is read.
        if config["tokenFile"] != "" {
            config["token"] = config["token"].as_str().unwrap_or_default().trim().into();
        }
        // client-go leaves carriage returns and line separators in a hint, which would reach the terminal.
        if let Some(hint) = config.get_mut("exec").and_then(|exec| exec.get_mut("installHint")) {
            *hint = credlet_api::escape_control_chars(hint.as_str().unwrap_or_default()).into();
        }
        // A password without a user name is never sent.
        if config["username"] == "" {
            config["password"] = "".into();
        }
        for list in ["asGroups", "asExtra"] {
            if config[list].as_array().is_some_and(Vec::is_empty)
                || config[list].as_object().is_some_and(|map| map.is_empty())
            {
                config[list] = Value::Null;
            }
        }
        if let Some(exec) = config["exec"].as_object_mut() {
            for list in ["args", "env"] {
                if exec[list].is_null() {
                    exec[list] = json!([]);
                }
            }
        }
        if let Some(provider) = config["authProvider"].as_object_mut()
            && provider["config"].is_null()
        {
            provider["config"] = json!({});
        }
    }

    fn deliberate(&self, query: &Value, difference: &Difference<'_>) -> Option<&'static str> {
        let texts: Vec<String> = query["files"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|path| fs::read_to_string(path.as_str()?).ok())
            .collect();
        deliberate::reason(&texts, &query["overrides"], difference)
    }

    fn plant(&self, query: &mut Value) {
        if let Some(files) = query["files"].as_array_mut() {
            files.reverse();
        }
    }

    fn kind(&self, theirs: &Value) -> String {
        let config = &theirs["config"];
        match theirs["outcome"].as_str() {
            Some("ok") if config["exec"].is_object() => "exec".to_owned(),
            Some("ok") if config["certificate"] != "" => "certificate".to_owned(),
            Some("ok") if config["token"] != "" => "token".to_owned(),
            Some(outcome) => outcome.to_owned(),
            None => String::new(),
        }
    }
}
