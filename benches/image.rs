//! Image credentials, side by side with the kubelet's own code, which `benches/image` builds and names as an argument.

#![expect(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark is a program")]

use std::cell::Cell;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use credlet_api::image::AuthConfig;
use credlet_benches::{Times, in_turns, is_quick};
use credlet_exec::Platform;
use credlet_image::{
    DockerKeyring, ImageCredentials, ImageName, ImagePattern, LookupRequest, MatchTarget, ProviderOptions, look_up,
};

/// A provider whose response covers all images of a registry. It appends a byte to a file for each run.
const PLUGIN: &str = r#"#!/bin/sh
read -r request
printf . >>"${0%/*}/runs"
sleep 0.2
echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry",' \
  '"cacheDuration":"1h","auth":{"*.registry.example":{"username":"ada","password":"secret"}}}'
"#;

const CONFIG: &str = "kind: CredentialProviderConfig
apiVersion: kubelet.config.k8s.io/v1
providers:
- name: plugin
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ['*.registry.example']
  defaultCacheDuration: 1h
";

const IMAGE: &str = "eu.registry.example/team/app:v1";
const NAME: &str = "eu.registry.example/team/app";
const HERD: usize = 20;

fn main() -> ExitCode {
    let Some(program) = std::env::args().skip_while(|arg| arg != "--kubelet").nth(1) else {
        println!("image credentials are measured by benches/image, which builds the other side");
        return ExitCode::SUCCESS;
    };
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.yaml");
    fs::write(&config, CONFIG).unwrap();
    fs::write(dir.path().join("plugin"), PLUGIN).unwrap();
    fs::set_permissions(dir.path().join("plugin"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut kubelet = KubeletProcess::start(&program, &config, dir.path());
    let credentials =
        ImageCredentials::load(&config, dir.path(), ProviderOptions::default(), Platform::system()).unwrap();

    let looked_up = cached(&mut kubelet, &credentials);
    let matched = matching(&mut kubelet, dir.path());
    growth(&mut kubelet, dir.path());
    let shared = herd(&mut kubelet, Arc::new(credentials), &dir.path().join("runs"));
    let kept = looked_up >= 5.0 && matched >= 5.0 && shared;
    if !kept && !is_quick() {
        println!("\nless than was promised: 5 times on look-ups and matching, one run for a herd and no longer a wait");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The kubelet's code in a separate process, which waits for commands.
struct KubeletProcess {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl KubeletProcess {
    fn start(program: &str, config: &Path, bin_dir: &Path) -> Self {
        let mut command = Command::new(program);
        let mut child = command.arg(config).arg(bin_dir).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (commands, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, commands, answers }
    }

    /// Returns the number of credentials or matches found.
    fn ask(&mut self, command: &str) -> usize {
        writeln!(self.commands, "{command}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().parse().unwrap()
    }
}

impl Drop for KubeletProcess {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Cached look-ups with one provider. Returns the smaller ratio.
fn cached(kubelet: &mut KubeletProcess, credentials: &ImageCredentials) -> f64 {
    let (rounds, times) = if is_quick() { (2, 100) } else { (25, 10_000) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ours = |times: usize| {
        runtime.block_on(async {
            for _ in 0..times {
                let found = credentials.look_up(IMAGE, &LookupRequest::default()).await.unwrap();
                assert_eq!(found.credentials.len(), 1);
            }
        });
    };
    // Fills both caches.
    ours(1);
    assert_eq!(kubelet.ask(&format!("pull 1 {IMAGE}")), 1);

    println!(
        "| cached look-up, one provider | kubelet | credlet | ratio of the best | of the medians |\n|---|---|---|---|---|"
    );
    let from = [
        ("from the image as a pod names it", format!("pull {times} {IMAGE}")),
        ("the kubelet's part after completing the name, our whole", format!("keyring {times} {NAME}")),
    ];
    let ratios = from.map(|(name, command)| {
        let measured = in_turns(rounds, 1, [&mut || assert_eq!(kubelet.ask(&command), times), &mut || ours(times)]);
        row(name, times, measured)
    });
    ratios[0].min(ratios[1])
}

/// Matches all images against all keys.
fn matching(kubelet: &mut KubeletProcess, dir: &Path) -> f64 {
    let (rounds, keys, images) = if is_quick() { (2, 100, 100) } else { (3, 1_000, 10_000) };
    let set = KeySet::new(keys, images, registry);
    set.hand_over(kubelet, dir);
    println!(
        "\n| {keys} patterns × {images} images, half of which match one | kubelet | credlet | ratio of the best | of the medians |\n|---|---|---|---|---|"
    );
    let keyring = set.keyring();
    let found = Cell::new(0);
    let measured = in_turns(
        rounds,
        1,
        [&mut || found.set(kubelet.ask("match")), &mut || {
            assert_eq!(set.images.iter().map(|image| look_up(&[&keyring], image).len()).sum::<usize>(), found.get())
        }],
    );
    let ratio = row("look-up of an image in a keyring of all patterns", images, measured);

    let patterns: Vec<_> = set.keys.iter().map(|key| ImagePattern::parse(key).unwrap()).collect();
    let pairs = |image: &String| {
        let target = MatchTarget::parse(image).unwrap();
        patterns.iter().filter(|pattern| pattern.matches(&target)).count()
    };
    let measured = in_turns(
        rounds,
        1,
        [&mut || found.set(kubelet.ask("pairs")), &mut || {
            assert_eq!(set.images.iter().map(pairs).sum::<usize>(), found.get())
        }],
    );
    row("one pattern with one image, without our index", images * keys, measured);
    ratio
}

/// Cost of a look-up by number of patterns.
fn growth(kubelet: &mut KubeletProcess, dir: &Path) {
    let (rounds, images, most) = if is_quick() { (2, 100, 100) } else { (9, 200, 10_000) };
    println!(
        "\n| look-up in a keyring of | kubelet | credlet | ratio of the best | of the medians |\n|---|---|---|---|---|"
    );
    let sizes = [10, 100, 1_000, 10_000].map(|keys| (keys, "patterns", registry as fn(usize) -> String));
    // Patterns that the index has to try one by one.
    let worst = (10_000, "patterns such as `app-7*.example.com`", partly as fn(usize) -> String);
    for (keys, name, registry) in sizes.into_iter().chain([worst]).filter(|(keys, ..)| *keys <= most) {
        let set = KeySet::new(keys, images, registry);
        set.hand_over(kubelet, dir);
        let keyring = set.keyring();
        let found = Cell::new(0);
        // Repeated until it takes long enough to be measured.
        let times = 50;
        let [theirs, ours] = in_turns(
            rounds,
            1,
            [&mut || found.set(kubelet.ask("match")), &mut || {
                for _ in 0..times {
                    let ours = set.images.iter().map(|image| look_up(&[&keyring], image).len()).sum::<usize>();
                    assert_eq!(ours, found.get());
                }
            }],
        );
        let ours = Times { best: ours.best / times, median: ours.median / times };
        row(&format!("{keys} {name}"), images, [theirs, ours]);
    }
}

/// Concurrent look-ups of images of one registry without a cached response. Returns whether they shared one run and took no longer.
fn herd(kubelet: &mut KubeletProcess, credentials: Arc<ImageCredentials>, runs: &Path) -> bool {
    let rounds = if is_quick() { 1 } else { 7 };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // A new registry each time, so that no response is cached.
    let images = |round: usize| (0..HERD).map(move |number| format!("herd-{round}.registry.example/team/app-{number}"));
    let counted = |counter: &Cell<u64>, herd: &mut dyn FnMut()| {
        let before = fs::metadata(runs).unwrap().len();
        herd();
        counter.set(counter.get() + fs::metadata(runs).unwrap().len() - before);
    };
    let (their_runs, our_runs) = (Cell::new(0), Cell::new(0));
    let (mut their_rounds, mut our_rounds) = (0.., 0..);
    let [theirs, ours] = in_turns(
        rounds,
        1,
        [
            &mut || {
                let images: Vec<_> = images(their_rounds.next().unwrap()).collect();
                counted(&their_runs, &mut || assert_eq!(kubelet.ask(&format!("herd {}", images.join(" "))), HERD));
            },
            &mut || {
                let round = our_rounds.next().unwrap();
                counted(&our_runs, &mut || {
                    let look_up = |image: String| {
                        let credentials = Arc::clone(&credentials);
                        runtime
                            .spawn(async move { credentials.look_up(&image, &LookupRequest::default()).await.unwrap() })
                    };
                    let running: Vec<_> = images(round).map(look_up).collect();
                    for look_up in running {
                        assert_eq!(runtime.block_on(look_up).unwrap().credentials.len(), 1);
                    }
                });
            },
        ],
    );
    println!(
        "\n| {HERD} images of one registry at once, a plugin of 200 ms | kubelet | credlet | ratio |\n|---|---|---|---|"
    );
    let rounds = rounds as u64;
    let (their_runs, our_runs) = (their_runs.get() / rounds, our_runs.get() / rounds);
    println!("| runs | {their_runs} | {our_runs} | {} |", their_runs / our_runs);
    for (name, theirs, ours) in [("best wall time", theirs.best, ours.best), ("median", theirs.median, ours.median)] {
        let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
        println!("| {name} | {:.0} ms | {:.0} ms | {ratio:.2} |", theirs.as_secs_f64() * 1e3, ours.as_secs_f64() * 1e3);
    }
    their_runs / our_runs >= 20 && ours.median <= theirs.median
}

/// Keys and images; every other image matches.
struct KeySet {
    keys: Vec<String>,
    images: Vec<String>,
}

impl KeySet {
    fn new(keys: usize, images: usize, registry: fn(usize) -> String) -> Self {
        let image = |number: usize| match number % 2 {
            0 => format!("{}/team/app-{number}", registry(number * 7919 % keys).replace('*', "eu")),
            _ => format!("host-{number}.example.org/team/app-{number}"),
        };
        let images: Vec<_> = (0..images).map(image).collect();
        assert!(images.iter().all(|image| image.parse::<ImageName>().unwrap().as_str() == image));
        Self { keys: (0..keys).map(registry).collect(), images }
    }

    fn keyring(&self) -> DockerKeyring {
        let auth = || AuthConfig { username: "ada".to_owned(), password: "secret".into() };
        DockerKeyring::new(self.keys.iter().map(|key| (key, auth())))
    }

    fn hand_over(&self, kubelet: &mut KubeletProcess, dir: &Path) {
        let (keys, images) = (dir.join("keys"), dir.join("images"));
        fs::write(&keys, self.keys.join("\n")).unwrap();
        fs::write(&images, self.images.join("\n")).unwrap();
        assert_eq!(kubelet.ask(&format!("keys {} {}", keys.display(), images.display())), self.images.len());
    }
}

/// Whole hosts, wildcard labels, ports, and many paths on one host.
fn registry(number: usize) -> String {
    match number % 4 {
        0 => format!("{number:012}.dkr.ecr.eu-west-{}.amazonaws.com", number % 3),
        1 => format!("*.zone-{number}.example.net"),
        2 => format!("registry-{number}.example.com:5000/team"),
        _ => format!("quay.example.com/org-{number}"),
    }
}

/// A wildcard for a part of a label.
fn partly(number: usize) -> String {
    format!("app-{number}*.example.com")
}

fn row(name: &str, times: usize, [theirs, ours]: [Times; 2]) -> f64 {
    let each = |whole: Duration| whole.as_secs_f64() * 1e9 / times as f64;
    let best = each(theirs.best) / each(ours.best);
    let median = each(theirs.median) / each(ours.median);
    println!("| {name} | {:.0} ns | {:.0} ns | {best:.1} | {median:.1} |", each(theirs.best), each(ours.best));
    best
}
