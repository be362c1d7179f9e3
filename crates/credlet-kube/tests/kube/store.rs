//! The ConfigMaps of one namespace: listed, watched from any version on, patched. What the API server does, in short.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use credlet_testkit::server::{ResponseBody, ResponseFuture};
use futures::stream;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::upgrades;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

#[derive(Clone, Default)]
pub(crate) struct ConfigMapStore {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    version: usize,
    objects: BTreeMap<String, Value>,
    /// Events of all watches; the first has version 1.
    events: Vec<Value>,
    /// Watches that began in an earlier one have ended.
    epoch: usize,
}

impl ConfigMapStore {
    /// Makes a ConfigMap or replaces it.
    pub(crate) fn apply(&self, name: &str) {
        self.change(name, json!({ "data": { "greeting": "hello" } }));
    }

    /// Ends all watches, in good order, when they have told all there is to tell.
    pub(crate) fn end_watches(&self) {
        self.state().epoch += 1;
        self.changed.send_replace(());
    }

    /// Returns when there is such an annotation on a ConfigMap.
    pub(crate) async fn annotated(&self, name: &str, annotation: &str) {
        let mut changed = self.changed.subscribe();
        while self.state().objects.get(name).is_none_or(|map| map["metadata"]["annotations"][annotation].is_null()) {
            changed.changed().await.unwrap();
        }
    }

    pub(crate) fn answer(&self, request: Request<Incoming>) -> ControlFlow<ResponseFuture, Request<Incoming>> {
        let path = request.uri().path();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let has = |pair: &str| query.split('&').any(|given| given == pair);
        let store = self.clone();
        if path.ends_with("/exec") {
            return Break(Box::pin(upgrades::hello(request)));
        }
        match (request.method(), path.strip_prefix(PATH)) {
            (&Method::GET, Some("")) if has("watch=true") => {
                let since = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion=")?.parse().ok());
                Break(Box::pin(async move { store.watch(since.unwrap_or_default()) }))
            }
            (&Method::GET, Some("")) => Break(Box::pin(async move { store.list() })),
            (&Method::PATCH, Some(name)) => {
                let name = name.trim_start_matches('/').to_owned();
                Break(Box::pin(async move {
                    let patch = request.into_body().collect().await.unwrap().to_bytes();
                    whole(&store.change(&name, serde_json::from_slice(&patch).unwrap()))
                }))
            }
            _ => Continue(request),
        }
    }

    fn list(&self) -> Response<ResponseBody> {
        let state = self.state();
        let items: Vec<_> = state.objects.values().collect();
        let metadata = json!({ "resourceVersion": state.version.to_string() });
        whole(&json!({ "kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": items }))
    }

    fn watch(&self, since: usize) -> Response<ResponseBody> {
        let begin = (self.clone(), self.changed.subscribe(), since, self.state().epoch);
        let events = stream::unfold(begin, |(store, mut changed, told, epoch)| async move {
            loop {
                let (next, over) = {
                    let state = store.state();
                    (state.events.get(told).cloned(), state.epoch != epoch)
                };
                if let Some(event) = next {
                    let line = Frame::data(Bytes::from(format!("{event}\n")));
                    return Some((Ok::<_, Infallible>(line), (store, changed, told + 1, epoch)));
                }
                if over {
                    return None;
                }
                changed.changed().await.unwrap();
            }
        });
        Response::new(StreamBody::new(events).boxed_unsync())
    }

    fn change(&self, name: &str, patch: Value) -> Value {
        let mut state = self.state();
        state.version += 1;
        let version = state.version.to_string();
        let known = state.objects.contains_key(name);
        let object = state.objects.entry(name.to_owned()).or_insert_with(
            || json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "name": name, "namespace": "default" } }),
        );
        merge(object, patch);
        object["metadata"]["resourceVersion"] = version.into();
        let object = object.clone();
        state.events.push(json!({ "type": if known { "MODIFIED" } else { "ADDED" }, "object": object }));
        drop(state);
        self.changed.send_replace(());
        object
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        merge(&mut target[name], value);
    }
}

fn whole(object: &Value) -> Response<ResponseBody> {
    let body = Full::new(Bytes::from(object.to_string())).boxed_unsync();
    Response::builder().header(header::CONTENT_TYPE, "application/json").body(body).unwrap()
}
