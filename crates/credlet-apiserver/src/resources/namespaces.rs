//! Namespaces, with notification of watches.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use credlet_platform::Clock;
use http_body_util::BodyExt as _;
use http_body_util::channel::{Channel, Sender};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use super::query::{QueryParams, ResponseForm};
use crate::response::{ResponseBody, StatusError};

/// Namespaces of a new cluster.
const NAMES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The namespaces of a server. Clones share them, so that a test can change what a running server serves.
#[derive(Clone)]
pub struct NamespaceStore {
    /// Sorted by name.
    all: Arc<watch::Sender<Vec<NamespaceObject>>>,
    clock: Arc<dyn Clock>,
}

#[derive(Clone)]
struct NamespaceObject {
    name: String,
    /// Number in the order of creation, for the UID.
    number: usize,
    created: Timestamp,
    /// Resource version of its creation.
    added: u64,
    /// Resource version: increases with every change of any namespace.
    version: u64,
    changes: u64,
}

impl NamespaceStore {
    /// Creates the namespaces of a new cluster: `default`, `kube-node-lease`, `kube-public` and `kube-system`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_names(clock, NAMES)
    }

    /// Creates namespaces of these names.
    pub fn with_names<'a>(clock: Arc<dyn Clock>, names: impl IntoIterator<Item = &'a str>) -> Self {
        let store = Self { all: Arc::new(watch::Sender::new(Vec::new())), clock };
        names.into_iter().for_each(|name| store.add(name));
        store
    }

    /// Adds a namespace unless it exists. Watches receive an event `ADDED`.
    pub fn add(&self, name: &str) {
        let created = self.clock.now();
        self.all.send_if_modified(|all| {
            let Err(at) = all.binary_search_by(|namespace| namespace.name.as_str().cmp(name)) else { return false };
            let (number, version) = (all.len(), newest(all) + 1);
            let added = version;
            all.insert(at, NamespaceObject { name: name.to_owned(), number, created, added, version, changes: 0 });
            true
        });
    }

    /// Changes a namespace: counts up its annotation `changes`. Watches receive an event `MODIFIED`. Does nothing if there is no
    /// namespace of this name.
    pub fn touch(&self, name: &str) {
        self.all.send_if_modified(|all| {
            let version = newest(all) + 1;
            let Some(namespace) = all.iter_mut().find(|namespace| namespace.name == name) else { return false };
            namespace.version = version;
            namespace.changes += 1;
            true
        });
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
        let (mut closed, open) = oneshot::channel::<()>();
        let events = WatchStream { namespaces: self.clone(), sender, selected, form };
        tokio::spawn(async move {
            tokio::select! {
                _ = events.send(from, marks_the_beginning) => {}
                // The client may close a watch that has no events.
                () = closed.closed() => {}
                // A timed-out watch ends without an error.
                () = timed_out(limit) => {}
            }
        });
        let body = body.map_frame(move |frame| {
            let _open = &open;
            frame
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

impl fmt::Debug for NamespaceStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.all.borrow();
        f.debug_list().entries(all.iter().map(|namespace| &namespace.name)).finish()
    }
}

impl NamespaceObject {
    fn object(&self) -> Value {
        let Self { name, number, created, version, changes, .. } = self;
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
        self.name.as_ref().is_none_or(|name| *name == namespace.name)
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
        let mut marks_the_beginning = marks_the_beginning && from.is_none();
        let mut seen = from.unwrap_or_default();
        loop {
            let mut changed = changes.borrow_and_update().clone();
            changed.retain(|namespace| namespace.version > seen);
            changed.sort_by_key(|namespace| namespace.version);
            let known = seen;
            seen = known.max(newest(&changed));
            changed.retain(|namespace| self.selected.includes(namespace));
            for namespace in &changed {
                let kind = if namespace.added > known { "ADDED" } else { "MODIFIED" };
                let object = self.namespaces.shown(namespace, self.form);
                self.event(kind, &object).await?;
            }
            if std::mem::take(&mut marks_the_beginning) {
                let annotations = json!({ "k8s.io/initial-events-end": "true" });
                let metadata = json!({ "resourceVersion": seen.to_string(), "annotations": annotations });
                let object = json!({ "kind": "Namespace", "apiVersion": "v1", "metadata": metadata });
                self.event("BOOKMARK", &object).await?;
            }
            changes.changed().await.ok()?;
        }
    }

    async fn event(&mut self, kind: &str, object: &Value) -> Option<()> {
        let line = format!("{}\n", json!({ "type": kind, "object": object }));
        self.sender.send_data(line.into()).await.ok()
    }
}

/// Completes after this time, if any.
async fn timed_out(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => pending().await,
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

#[cfg(test)]
mod tests {
    use credlet_platform::SystemClock;

    use super::*;

    fn store() -> NamespaceStore {
        NamespaceStore::new(Arc::new(SystemClock::new()))
    }

    fn watch(store: &NamespaceStore, query: &str) -> ResponseBody {
        store.watch(&QueryParams::parse(query), ResponseForm::Object).unwrap()
    }

    /// Returns the type, name and resource version of the next event.
    async fn event(body: &mut ResponseBody) -> (String, String, String) {
        let data = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let event: Value = serde_json::from_slice(&data).unwrap();
        let metadata = &event["object"]["metadata"];
        let [kind, name, version] =
            [&event["type"], &metadata["name"], &metadata["resourceVersion"]].map(|text| text.as_str().unwrap().into());
        (kind, name, version)
    }

    fn expected(kind: &str, name: &str, version: &str) -> (String, String, String) {
        (kind.into(), name.into(), version.into())
    }

    #[tokio::test]
    async fn watch_reports_changes() {
        let store = store();
        let (mut all, mut since) = (watch(&store, "watch=1"), watch(&store, "watch=1&resourceVersion=4"));
        for (name, version) in NAMES.iter().zip(1..) {
            assert_eq!(event(&mut all).await, expected("ADDED", name, &version.to_string()));
        }
        store.add("test");
        store.add("test");
        for body in [&mut all, &mut since] {
            assert_eq!(event(body).await, expected("ADDED", "test", "5"));
        }
        store.touch("unknown");
        store.touch("test");
        for body in [&mut all, &mut since] {
            assert_eq!(event(body).await, expected("MODIFIED", "test", "6"));
        }
        let test = store.get("test", ResponseForm::Object).unwrap();
        assert_eq!(test["metadata"]["annotations"]["changes"], "1");
    }

    #[tokio::test(start_paused = true)]
    async fn watch_ends_at_timeout() {
        let store = store();
        let mut body = watch(&store, "watch=1&timeoutSeconds=5&resourceVersion=4");
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn closed_watch_releases_store() {
        let store = store();
        let body = watch(&store, "watch=1&resourceVersion=4");
        assert_eq!(Arc::strong_count(&store.all), 2);
        drop(body);
        while Arc::strong_count(&store.all) > 1 {
            tokio::task::yield_now().await;
        }
    }
}
