//! Opening a page in the person's browser.

use std::ffi::OsString;
use std::time::Duration;

use credlet_core::{Limits, Program, Stdin, World, look_up};

/// The starter goes on by itself at once; what it has started does not count.
const LIMITS: Limits = Limits { time: Duration::from_secs(10), stdout: 4096 };

/// What can open a page, where the person has not said.
#[cfg(target_os = "macos")]
const OPENERS: [&str; 1] = ["open"];
#[cfg(not(target_os = "macos"))]
const OPENERS: [&str; 4] = ["xdg-open", "wslview", "x-www-browser", "www-browser"];

/// Whether something was started that should show the page. Whether it does, only the person knows.
///
/// The program is let go of: a browser that this login happened to start first must outlive it. The runner ends what it
/// has started when nobody waits for it any more, so a shell starts the browser and leaves.
pub(super) async fn open(url: &str, command: Option<&str>, world: &World) -> bool {
    let Some(words) = opener(url, command, world) else { return false };
    let Ok(shell) = look_up("sh", &*world.env) else { return false };
    let script = r#"exec </dev/null >/dev/null 2>&1; "$@" &"#;
    let args = ["-c", script, "sh"].map(str::to_owned).into_iter().chain(words).collect();
    // It is none of the browser's business which credential is wanted, nor what the client's secret is.
    let private = |name: &OsString| {
        name.to_str().is_some_and(|name| name.starts_with("CREDLET_") || name == credlet_api::exec::EXEC_INFO_ENV)
    };
    let env = world.env.vars().into_iter().filter(|(name, _)| !private(name)).collect();
    let run = world.runner.run(Program { path: shell, args, env, stdin: Stdin::Null, limits: LIMITS });
    run.await.is_ok_and(|finished| finished.ended.is_success())
}

/// The first program that exists: the flag's, one of `$BROWSER`, one of the system's. With the address in its place.
fn opener(url: &str, command: Option<&str>, world: &World) -> Option<Vec<String>> {
    let words = |command: &str| {
        let mut words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let program = look_up(words.first()?, &*world.env).ok()?;
        words[0] = program.to_str()?.to_owned();
        if words.iter().any(|word| word.contains("%s")) {
            words = words.into_iter().map(|word| word.replace("%s", url)).collect();
        } else {
            words.push(url.to_owned());
        }
        Some(words)
    };
    if let Some(command) = command {
        return words(command);
    }
    let chosen = world.env.var("BROWSER").and_then(|browsers| browsers.into_string().ok()).unwrap_or_default();
    chosen.split(':').chain(OPENERS).find_map(words)
}
