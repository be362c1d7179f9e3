//! The only resource: five namespaces, one of which changes periodically so that a watch receives events.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use credlet_exec::Clock;
use http_body_util::BodyExt as _;
use http_body_util::channel::{Channel, Sender};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::query::{QueryParams, ResponseForm};
use super::response::{ResponseBody, StatusError};

const NAMES: [&str; 5] = ["default", "demo", "kube-node-lease", "kube-public", "kube-system"];

/// Namespace that changes periodically.
const CHANGING: &str = "demo";

/// All namespaces, with notification of watchers.
#[derive(Clone)]
pub(super) struct NamespaceStore {
    /// Sorted by name.
    all: Arc<watch::Sender<Vec<NamespaceObject>>>,
    clock: Arc<dyn Clock>,
}

#[derive(Clone)]
struct NamespaceObject {
    name: &'static str,
    created: Timestamp,
    /// Resource version: increases with every change of any namespace.
    version: u64,
    changes: u64,
}

impl NamespaceStore {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let created = clock.now();
        let all = NAMES.iter().zip(1..).map(|(name, version)| NamespaceObject { name, created, version, changes: 0 });
        Self { all: Arc::new(watch::Sender::new(all.collect())), clock }
    }

    /// Changes the namespace [`CHANGING`] periodically. Never returns.
    pub(super) async fn run_changes(self, every: Duration) {
        loop {
            self.clock.sleep(every).await;
            self.all.send_modify(|all| {
                let version = newest(all) + 1;
                for namespace in all.iter_mut().filter(|namespace| namespace.name == CHANGING) {
                    namespace.version = version;
                    namespace.changes += 1;
                }
            });
        }
    }

    pub(super) fn get(&self, name: &str, form: ResponseForm) -> Result<Value, StatusError> {
        let all = self.all.borrow();
        let found = all.iter().find(|namespace| namespace.name == name);
        let found = found.ok_or_else(|| StatusError::UnknownNamespace(name.to_owned()))?;
        Ok(self.shown(found, form))
    }

    pub(super) fn list(&self, query: &QueryParams, form: ResponseForm) -> Result<Value, StatusError> {
        let selected = NamespaceSelector::by(query)?;
        let all = self.all.borrow();
        let chosen: Vec<_> = all.iter().filter(|namespace| selected.includes(namespace)).collect();
        let metadata = json!({ "resourceVersion": newest(&all).to_string() });
        Ok(match form {
            ResponseForm::Table => self.table(&chosen, &metadata),
            ResponseForm::Object => json!({
                "kind": "NamespaceList",
                "apiVersion": "v1",
                "metadata": metadata,
                "items": chosen.into_iter().map(NamespaceObject::object).collect::<Vec<_>>(),
            }),
        })
    }

    /// Returns the body of a watch: one JSON event per line, until the client closes it or `timeoutSeconds` have passed.
    pub(super) fn watch(&self, query: &QueryParams, form: ResponseForm) -> Result<ResponseBody, StatusError> {
        let selected = NamespaceSelector::by(query)?;
        let number = |name: &str| match query.get(name).map(str::parse::<u64>) {
            None => Ok(None),
            Some(Ok(number)) => Ok(Some(number)),
            Some(Err(_)) => Err(StatusError::BadRequest(format!("{name} is not a number"))),
        };
        // Without a resource version, or with version 0, a watch begins with the existing objects.
        let from = number("resourceVersion")?.filter(|version| *version > 0);
        let limit = number("timeoutSeconds")?.map(Duration::from_secs);
        let marks_the_beginning = query.is_set("sendInitialEvents") && query.is_set("allowWatchBookmarks");
        let (sender, body) = Channel::new(8);
        let events = WatchStream { namespaces: self.clone(), sender, selected, form };
        tokio::spawn(async move {
            match limit {
                // A timed-out watch ends without an error.
                Some(limit) => drop(tokio::time::timeout(limit, events.send(from, marks_the_beginning)).await),
                None => drop(events.send(from, marks_the_beginning).await),
            }
        });
        Ok(body.boxed_unsync())
    }

    fn shown(&self, namespace: &NamespaceObject, form: ResponseForm) -> Value {
        match form {
            ResponseForm::Object => namespace.object(),
            ResponseForm::Table => {
                self.table(&[namespace], &json!({ "resourceVersion": namespace.version.to_string() }))
            }
        }
    }

    fn table(&self, namespaces: &[&NamespaceObject], metadata: &Value) -> Value {
        let column = |name: &str, format: &str, description: &str| json!({ "name": name, "type": "string", "format": format, "description": description, "priority": 0 });
        let now = self.clock.now();
        let row = |namespace: &&NamespaceObject| {
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
                column("Name", "name", "Name of the namespace"),
                column("Status", "", "The status of the namespace"),
                column("Age", "", "Time since creation"),
            ],
            "rows": namespaces.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

impl NamespaceObject {
    fn object(&self) -> Value {
        let Self { name, created, version, changes } = self;
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
                "annotations": if *changes > 0 { json!({ "changes": changes.to_string() }) } else { json!({}) },
            },
            "spec": { "finalizers": ["kubernetes"] },
            "status": { "phase": "Active" },
        })
    }
}

/// Field selector of a list or watch.
struct NamespaceSelector {
    name: Option<String>,
}

impl NamespaceSelector {
    fn by(query: &QueryParams) -> Result<Self, StatusError> {
        if query.get("labelSelector").is_some() {
            return Err(StatusError::BadRequest("unsupported query parameter labelSelector".into()));
        }
        let Some(selector) = query.get("fieldSelector") else { return Ok(Self { name: None }) };
        let name = selector.strip_prefix("metadata.name=").map(|name| name.trim_start_matches('='));
        let name = name.filter(|name| !name.contains([',', '=', '!']));
        name.map(|name| Self { name: Some(name.to_owned()) })
            .ok_or_else(|| StatusError::BadRequest("unsupported fieldSelector: must be metadata.name=NAME".into()))
    }

    fn includes(&self, namespace: &NamespaceObject) -> bool {
        self.name.as_ref().is_none_or(|name| name == namespace.name)
    }
}

/// Sender of the events of a watch.
struct WatchStream {
    namespaces: NamespaceStore,
    sender: Sender<Bytes>,
    selected: NamespaceSelector,
    form: ResponseForm,
}

impl WatchStream {
    /// Sends events until the client disconnects, then returns `None`.
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

fn newest(namespaces: &[NamespaceObject]) -> u64 {
    namespaces.iter().map(|namespace| namespace.version).max().unwrap_or_default()
}

/// Formats an age like kubectl.
fn age(now: Timestamp, since: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => format!("{}m{}s", seconds / 60, seconds % 60),
        600..10_800 => format!("{}m", seconds / 60),
        _ => format!("{}h", seconds / 3600),
    }
}
