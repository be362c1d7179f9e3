//! The one resource there is: a handful of namespaces, one of which changes all the time so that a watch has something to
//! say.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use credlet_core::Clock;
use http_body_util::BodyExt as _;
use http_body_util::channel::{Channel, Sender};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::query::{Form, Query};
use super::reply::{Body, No};

const NAMES: [&str; 5] = ["default", "demo", "kube-node-lease", "kube-public", "kube-system"];

/// The one that changes.
const BEATING: &str = "demo";

/// All namespaces, and whoever wants to know when one changes.
#[derive(Clone)]
pub(super) struct Namespaces {
    /// Objects in the order of their names.
    all: Arc<watch::Sender<Vec<Namespace>>>,
    clock: Arc<dyn Clock>,
}

#[derive(Clone)]
struct Namespace {
    name: &'static str,
    created: Timestamp,
    /// Grows with every change of any of them.
    version: u64,
    beats: u64,
}

impl Namespaces {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let created = clock.now();
        let all = NAMES.iter().zip(1..).map(|(name, version)| Namespace { name, created, version, beats: 0 });
        Self { all: Arc::new(watch::Sender::new(all.collect())), clock }
    }

    /// Changes one of them, for ever.
    pub(super) async fn beat(self, every: Duration) {
        loop {
            self.clock.sleep(every).await;
            self.all.send_modify(|all| {
                let version = newest(all) + 1;
                for namespace in all.iter_mut().filter(|namespace| namespace.name == BEATING) {
                    namespace.version = version;
                    namespace.beats += 1;
                }
            });
        }
    }

    pub(super) fn get(&self, name: &str, form: Form) -> Result<Value, No> {
        let all = self.all.borrow();
        let found = all.iter().find(|namespace| namespace.name == name);
        let found = found.ok_or_else(|| No::UnknownNamespace(name.to_owned()))?;
        Ok(self.shown(found, form))
    }

    pub(super) fn list(&self, query: &Query, form: Form) -> Result<Value, No> {
        let selected = Selected::by(query)?;
        let all = self.all.borrow();
        let chosen: Vec<_> = all.iter().filter(|namespace| selected.includes(namespace)).collect();
        let metadata = json!({ "resourceVersion": newest(&all).to_string() });
        Ok(match form {
            Form::Table => self.table(&chosen, &metadata),
            Form::Object => json!({
                "kind": "NamespaceList",
                "apiVersion": "v1",
                "metadata": metadata,
                "items": chosen.into_iter().map(Namespace::object).collect::<Vec<_>>(),
            }),
        })
    }

    /// What changes, a line each, for as long as the client likes or `timeoutSeconds` allow.
    pub(super) fn watch(&self, query: &Query, form: Form) -> Result<Body, No> {
        let selected = Selected::by(query)?;
        let number = |name: &str| match query.get(name).map(str::parse::<u64>) {
            None => Ok(None),
            Some(Ok(number)) => Ok(Some(number)),
            Some(Err(_)) => Err(No::BadRequest(format!("{name} is not a number"))),
        };
        // From version 0 and without one, a watch begins with what there is.
        let from = number("resourceVersion")?.filter(|version| *version > 0);
        let limit = number("timeoutSeconds")?.map(Duration::from_secs);
        let marks_the_beginning = query.is_set("sendInitialEvents") && query.is_set("allowWatchBookmarks");
        let (sender, body) = Channel::new(8);
        let events = Events { namespaces: self.clone(), sender, selected, form };
        tokio::spawn(async move {
            match limit {
                // At the end of its time a watch ends as if all had been said.
                Some(limit) => drop(tokio::time::timeout(limit, events.send(from, marks_the_beginning)).await),
                None => drop(events.send(from, marks_the_beginning).await),
            }
        });
        Ok(body.boxed_unsync())
    }

    fn shown(&self, namespace: &Namespace, form: Form) -> Value {
        match form {
            Form::Object => namespace.object(),
            Form::Table => self.table(&[namespace], &json!({ "resourceVersion": namespace.version.to_string() })),
        }
    }

    fn table(&self, namespaces: &[&Namespace], metadata: &Value) -> Value {
        let column = |name: &str, format: &str, description: &str| json!({ "name": name, "type": "string", "format": format, "description": description, "priority": 0 });
        let now = self.clock.now();
        let row = |namespace: &&Namespace| {
            json!({
                "cells": [namespace.name, "Active", age(now, namespace.created)],
                "object": {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": namespace.object()["metadata"],
                },
            })
        };
        json!({
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": [
                column("Name", "name", "The namespace's name."),
                column("Status", "", "Whether it is there to stay."),
                column("Age", "", "How long it has been there."),
            ],
            "rows": namespaces.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

impl Namespace {
    fn object(&self) -> Value {
        let Self { name, created, version, beats } = self;
        let number = NAMES.iter().position(|other| other == name).unwrap_or_default();
        json!({
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "uid": format!("00000000-0000-4000-8000-{number:012}"),
                "resourceVersion": version.to_string(),
                "creationTimestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                "labels": { "kubernetes.io/metadata.name": name },
                "annotations": if *beats > 0 { json!({ "beats": beats.to_string() }) } else { json!({}) },
            },
            "spec": { "finalizers": ["kubernetes"] },
            "status": { "phase": "Active" },
        })
    }
}

/// Which of them are asked for.
struct Selected {
    name: Option<String>,
}

impl Selected {
    fn by(query: &Query) -> Result<Self, No> {
        if query.get("labelSelector").is_some() {
            return Err(No::BadRequest("this server cannot select by label".into()));
        }
        let Some(selector) = query.get("fieldSelector") else { return Ok(Self { name: None }) };
        let name = selector.strip_prefix("metadata.name=").map(|name| name.trim_start_matches('='));
        let name = name.filter(|name| !name.contains([',', '=', '!']));
        name.map(|name| Self { name: Some(name.to_owned()) })
            .ok_or_else(|| No::BadRequest("this server can select by metadata.name=NAME only".into()))
    }

    fn includes(&self, namespace: &Namespace) -> bool {
        self.name.as_ref().is_none_or(|name| name == namespace.name)
    }
}

/// A watch.
struct Events {
    namespaces: Namespaces,
    sender: Sender<Bytes>,
    selected: Selected,
    form: Form,
}

impl Events {
    /// `None`: the client has gone.
    async fn send(mut self, from: Option<u64>, marks_the_beginning: bool) -> Option<()> {
        let mut changes = self.namespaces.all.subscribe();
        let mut kind = if from.is_none() { "ADDED" } else { "MODIFIED" };
        let mut seen = from.unwrap_or_default();
        loop {
            let mut changed = changes.borrow_and_update().clone();
            changed.retain(|namespace| namespace.version > seen);
            changed.sort_by_key(|namespace| namespace.version);
            seen = seen.max(newest(&changed));
            changed.retain(|namespace| self.selected.includes(namespace));
            for namespace in &changed {
                let object = self.namespaces.shown(namespace, self.form);
                self.event(kind, &object).await?;
            }
            if kind == "ADDED" && marks_the_beginning {
                let annotations = json!({ "k8s.io/initial-events-end": "true" });
                let metadata = json!({ "resourceVersion": seen.to_string(), "annotations": annotations });
                let object = json!({ "kind": "Namespace", "apiVersion": "v1", "metadata": metadata });
                self.event("BOOKMARK", &object).await?;
            }
            kind = "MODIFIED";
            changes.changed().await.ok()?;
        }
    }

    async fn event(&mut self, kind: &str, object: &Value) -> Option<()> {
        let line = format!("{}\n", json!({ "type": kind, "object": object }));
        self.sender.send_data(line.into()).await.ok()
    }
}

fn newest(namespaces: &[Namespace]) -> u64 {
    namespaces.iter().map(|namespace| namespace.version).max().unwrap_or_default()
}

/// As kubectl shows it: the coarser, the older.
fn age(now: Timestamp, since: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => format!("{}m{}s", seconds / 60, seconds % 60),
        600..10_800 => format!("{}m", seconds / 60),
        _ => format!("{}h", seconds / 3600),
    }
}
