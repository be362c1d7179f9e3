//! The cache with a keyring of which a test knows what it holds. (As a process it is tested in `credlet`.)
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/pocket.rs"]
mod pocket;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use credlet_core::{FixedEnv, NoObserver, StderrSink, SystemClock, SystemRunner, World};
use credlet_plugins::cache::{Call, Note, Options};
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::Plugin;

use pocket::Pocket;

const V1: &str =
    r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}}"#;

struct Scene {
    dir: tempfile::TempDir,
    watch: Watch,
    plugin: Plugin,
    notes: Vec<Note>,
}

impl Scene {
    fn new() -> Self {
        let watch = Watch::new();
        let token = watch.secret("token");
        let plugin = Plugin::answering(token.expose()).expiring_in(Duration::from_secs(3600));
        Self { dir: tempfile::tempdir().unwrap(), watch, plugin, notes: Vec::new() }
    }

    fn entries(&self) -> PathBuf {
        self.dir.path().join("entries")
    }

    fn entry(&self) -> Vec<u8> {
        let mut files = fs::read_dir(self.entries()).unwrap().map(|file| file.unwrap().path());
        let is_entry = |path: &PathBuf| path.file_name().unwrap().len() == 64;
        fs::read(files.find(is_entry).unwrap()).unwrap()
    }

    /// One call of the cache with `--encrypt`.
    async fn call(&mut self, keyring: &Arc<Pocket>) -> Vec<u8> {
        let command = self.plugin.command().to_str().unwrap().to_owned();
        let options =
            Options { encrypt: true, cache_dir: Some(self.entries()), ..Options::around(command, self.plugin.args()) };
        let env: Vec<(String, String)> =
            [("KUBERNETES_EXEC_INFO".to_owned(), V1.to_owned())].into_iter().chain(self.plugin.env()).collect();
        let world = World {
            clock: Arc::new(SystemClock::new()),
            env: Arc::new(FixedEnv::new(env).in_dir(Path::new("/"))),
            runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)),
            observer: Arc::new(NoObserver),
        };
        let mut call = Call::new(options, &*world.env).unwrap().keyring(Arc::clone(keyring) as _);
        if let Some(hit) = call.hit(world.clock.now()) {
            return hit.answer.to_vec();
        }
        let notes = &mut self.notes;
        call.miss(&world, &mut |note| notes.push(note)).await.stdout.to_vec()
    }
}

#[tokio::test]
async fn an_encrypted_entry_holds_no_token_and_is_served_all_the_same() {
    let mut scene = Scene::new();
    let keyring = Arc::new(Pocket::default());
    let first = scene.call(&keyring).await;
    assert!(keyring.key.lock().unwrap().is_some());
    scene.watch.text(String::from_utf8_lossy(&scene.entry()));
    assert_eq!(scene.call(&keyring).await, first);
    assert_eq!((scene.plugin.runs(), scene.notes.len()), (1, 0));
    // With another key it is none.
    scene.call(&Arc::new(Pocket::default())).await;
    assert_eq!(scene.plugin.runs(), 2);
}

#[tokio::test]
async fn without_a_keyring_the_entry_is_kept_in_the_clear_and_that_is_said_once() {
    let mut scene = Scene::new();
    let keyring = Arc::new(Pocket { blocked: true, ..Pocket::default() });
    let first = scene.call(&keyring).await;
    assert_eq!(scene.call(&keyring).await, first);
    assert_eq!(scene.plugin.runs(), 1);
    for file in fs::read_dir(scene.entries()).unwrap().map(|file| file.unwrap().path()) {
        // What was kept is gone; that it was said is not.
        if file.file_name().unwrap() != "no-keyring" {
            fs::remove_file(file).unwrap();
        }
    }
    scene.call(&keyring).await;
    assert_eq!(scene.plugin.runs(), 2);
    assert!(matches!(&*scene.notes, [Note::NotEncrypted(_)]), "{:?}", scene.notes);
}
