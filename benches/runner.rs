//! Cost of running a plugin, compared with a bare spawn and wait of the same program.

#![expect(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark is a program")]

use std::process::{Command, Stdio};
use std::sync::Arc;

use credlet_api::exec::{ApiVersion, ExecConfig, InteractiveMode};
use credlet_benches::{in_turns, is_quick};
use credlet_exec::{
    CommandSpec, ExecOptions, ExecPlugin, FetchReason, Platform, ProcessRunner as _, RunLimits, Source as _,
    StderrSink, StdinSource, SystemRunner,
};

const ANSWER: &str = r#"{"apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}}"#;

fn main() {
    let rounds = if is_quick() { 3 } else { 40 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let runner = SystemRunner::with_stderr(StderrSink::Discard);
    let env: Vec<_> = std::env::vars_os().collect();
    let program = CommandSpec {
        path: "/bin/echo".into(),
        args: vec![ANSWER.to_owned()],
        env: env.clone(),
        stdin: StdinSource::Null,
        limits: RunLimits::NON_INTERACTIVE,
    };
    let platform = Platform { runner: Arc::new(runner.clone()), ..Platform::system() };
    let config = ExecConfig::new("/bin/echo", ApiVersion::V1).args([ANSWER]).interactive_mode(InteractiveMode::Never);
    let plugin = ExecPlugin::new(config, None, ExecOptions::default(), platform).unwrap();

    let [bare, run, whole] = in_turns(
        rounds,
        50,
        [
            // posix_spawn and wait of the standard library, without pipes.
            &mut || {
                let mut command = Command::new("/bin/echo");
                let command = command.arg(ANSWER).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                assert!(command.env_clear().envs(env.iter().cloned()).status().unwrap().success());
            },
            &mut || assert!(runtime.block_on(runner.run(program.clone())).unwrap().exit.is_success()),
            &mut || drop(runtime.block_on(plugin.fetch(&FetchReason::Miss)).unwrap()),
        ],
    );

    println!("| one run of /bin/echo | best | ratio | median | ratio |\n|---|---|---|---|---|");
    for (name, times) in [
        ("posix_spawn + wait, output thrown away", bare),
        ("our runner: both pipes, limits, process group", run),
        ("whole plugin: look-up, policy, exec info, decode", whole),
    ] {
        println!(
            "| {name} | {:?} | {:.2} | {:?} | {:.2} |",
            times.best,
            times.best.as_secs_f64() / bare.best.as_secs_f64(),
            times.median,
            times.median.as_secs_f64() / bare.median.as_secs_f64(),
        );
    }
}
