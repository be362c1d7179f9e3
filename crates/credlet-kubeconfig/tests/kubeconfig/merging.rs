//! Merging of generated files: the first definition of an entry wins, as a whole.

use std::collections::BTreeMap;

use credlet_kubeconfig::{Kubeconfig, LoadingRules, ValueOrigin};
use credlet_platform::FixedEnv;
use proptest::prelude::*;

use super::Files;

/// Generated file: `current-context`, and optional servers and tokens for a few names.
#[derive(Clone, Debug)]
struct File {
    current: Option<u8>,
    clusters: BTreeMap<u8, (Option<u8>, Option<u8>)>,
    users: BTreeMap<u8, (Option<u8>, Option<u8>)>,
    contexts: BTreeMap<u8, (Option<u8>, Option<u8>)>,
}

fn file() -> impl Strategy<Value = File> {
    let fields = || (proptest::option::of(0..4_u8), proptest::option::of(0..4_u8));
    let list = || proptest::collection::btree_map(0..6_u8, fields(), 0..5);
    (proptest::option::of(0..6_u8), list(), list(), list()).prop_map(|(current, clusters, users, contexts)| File {
        current,
        clusters,
        users,
        contexts,
    })
}

impl File {
    fn yaml(&self) -> String {
        let list = |title: &str, member: &str, names: [&str; 2], entries: &BTreeMap<u8, (Option<u8>, Option<u8>)>| {
            let field =
                |name: &str, value: Option<u8>| value.map_or(String::new(), |value| format!("    {name}: v{value}\n"));
            let entry = |(name, (a, b)): (&u8, &(Option<u8>, Option<u8>))| {
                format!("- name: e{name}\n  {member}:\n{}{}", field(names[0], *a), field(names[1], *b))
            };
            format!("{title}:\n{}", entries.iter().map(entry).collect::<String>())
        };
        let current = self.current.map_or(String::new(), |name| format!("current-context: e{name}\n"));
        [
            current,
            list("clusters", "cluster", ["server", "tls-server-name"], &self.clusters),
            list("users", "user", ["token", "username"], &self.users),
            list("contexts", "context", ["cluster", "namespace"], &self.contexts),
        ]
        .concat()
    }
}

fn load(files: &[File]) -> (Files, Kubeconfig) {
    let here = Files::new();
    let list = files.iter().enumerate().map(|(index, file)| here.write(&format!("f{index}"), file.yaml())).collect();
    let kubeconfig = LoadingRules::list(list).load(&FixedEnv::default()).unwrap();
    (here, kubeconfig)
}

/// All entries as text.
fn shown(kubeconfig: &Kubeconfig) -> Vec<String> {
    let value = |text: &str| if text.is_empty() { String::new() } else { text.to_owned() };
    let clusters = kubeconfig.clusters().map(|entry| {
        let cluster = entry.item();
        format!("cluster {} {} {}", entry.name(), value(cluster.server.expose()), value(&cluster.tls_server_name))
    });
    let users = kubeconfig.users().map(|entry| {
        let user = entry.item();
        format!("user {} {} {}", entry.name(), value(user.token.expose()), value(&user.username))
    });
    let contexts = kubeconfig.contexts().map(|entry| {
        let context = entry.item();
        format!("context {} {} {}", entry.name(), value(&context.cluster), value(&context.namespace))
    });
    let current = kubeconfig.current_context().map(|name| format!("current {}", name.value));
    let mut all: Vec<String> = clusters.chain(users).chain(contexts).chain(current).collect();
    all.sort();
    all
}

/// Reference implementation: applies later files first, so that earlier ones overwrite them.
fn expected(files: &[File]) -> Vec<String> {
    let mut all = BTreeMap::new();
    let value = |value: Option<u8>| value.map_or(String::new(), |value| format!("v{value}"));
    for file in files.iter().rev() {
        for (kind, list) in [("cluster", &file.clusters), ("user", &file.users), ("context", &file.contexts)] {
            for (name, (a, b)) in list {
                all.insert((kind, *name), format!("{kind} e{name} {} {}", value(*a), value(*b)));
            }
        }
        if let Some(name) = file.current {
            all.insert(("current", 0), format!("current e{name}"));
        }
    }
    let mut all: Vec<String> = all.into_values().collect();
    all.sort();
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn first_definition_wins(files in proptest::collection::vec(file(), 0..5)) {
        let (_here, kubeconfig) = load(&files);
        prop_assert_eq!(shown(&kubeconfig), expected(&files));
    }

    #[test]
    fn appended_file_overrides_nothing(files in proptest::collection::vec(file(), 1..4), last in file()) {
        let (_here, before) = load(&files);
        let (_there, after) = load(&[files.clone(), vec![last]].concat());
        let before = shown(&before);
        let after = shown(&after);
        prop_assert!(before.iter().all(|thing| after.contains(thing)), "{:?} {:?}", before, after);
    }

    #[test]
    fn duplicate_file_is_ignored(files in proptest::collection::vec(file(), 1..4), again in 0..4_usize) {
        let here = Files::new();
        let mut list: Vec<_> =
            files.iter().enumerate().map(|(index, file)| here.write(&format!("f{index}"), file.yaml())).collect();
        let once = LoadingRules::list(list.clone()).load(&FixedEnv::default()).unwrap();
        list.push(list[again % list.len()].clone());
        let twice = LoadingRules::list(list).load(&FixedEnv::default()).unwrap();
        prop_assert_eq!(shown(&once), shown(&twice));
    }

    #[test]
    fn origins_are_correct(files in proptest::collection::vec(file(), 1..4)) {
        let (_here, kubeconfig) = load(&files);
        for entry in kubeconfig.users() {
            let ValueOrigin::File { path, line } = entry.origin() else { panic!("not from a file") };
            let text = std::fs::read_to_string(path).unwrap();
            let expected = format!("- name: {}", entry.name());
            prop_assert_eq!(text.lines().nth(line - 1), Some(&*expected));
        }
    }
}

#[test]
fn user_is_taken_from_one_file() {
    let here = Files::new();
    let first = here.write("first", "users: [{name: u, user: {username: ada}}]");
    let second = here.write("second", "users: [{name: u, user: {username: eve, password: p}}]");
    let kubeconfig = LoadingRules::list(vec![first, second]).load(&here.env()).unwrap();
    let user = kubeconfig.user("u").unwrap();
    assert_eq!((&*user.item().username.value, user.item().password.is_empty()), ("ada", true));
}
