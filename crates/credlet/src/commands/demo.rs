//! `credlet demo`: a plugin that is slow, short-lived, refused, broken and stuck, and what its users notice of that.

mod plugin;
mod stage;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use credlet_api::exec::Response;
use credlet_core::Error;

use self::plugin::Behaviour;
pub(crate) use self::plugin::main as plugin;
use self::stage::Stage;
use crate::printer::Printer;

const CALLERS: usize = 64;

pub(crate) fn run() -> ExitCode {
    let mut printer = Printer::default();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            printer.line(format!("error: no runtime: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(show(&mut printer)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            printer.line(format!("error: the demo cannot be set up: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether all of it held.
async fn show(printer: &mut Printer) -> Result<bool, stage::SetupError> {
    printer.line("One credential plugin (this binary, 200 ms a run, tokens of 3 s), and 64 callers.");
    printer.line("");
    let mut held = true;
    let mut report = |what: &str, noticed: String, as_promised: bool| {
        held &= as_promised;
        printer.line(format!("  {} {what:<44} {noticed}", if as_promised { '✓' } else { '✗' }));
    };

    let stage = Stage::new()?;
    report("building a client", runs(stage.runs()), stage.runs() == 0);

    let outcomes = stage.ask(CALLERS).await;
    let served = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    report(
        "64 callers at once, cold",
        format!("{served} served, {}", runs(stage.runs())),
        served == 64 && stage.runs() == 1,
    );

    let before = stage.runs();
    let (asked, waited) = stage.ask_for(Duration::from_secs(6)).await;
    let renewed = stage.runs() - before;
    report(
        "6 s of requests while tokens expire",
        format!("{asked} served, {waited} waited, {renewed} renewals behind their backs"),
        asked > 0 && waited == 0 && renewed >= 1,
    );

    if let Ok(held_by_all) = stage.flight().get().await {
        let before = stage.runs();
        let replaced = stage.all(CALLERS, |flight| {
            let refused = Arc::clone(&held_by_all);
            async move {
                matches!(flight.replace(&refused, Response { code: 401, ..Response::default() }).await, Ok(Some(_)))
            }
        });
        let replaced = replaced.await.into_iter().filter(|replaced| *replaced).count();
        let run = stage.runs() - before;
        report(
            "64 callers refused by the server",
            format!("{replaced} got another token, {}", runs(run)),
            replaced == 64 && run <= 1,
        );
    }

    let stage = Stage::new()?;
    stage.behave(Behaviour::Fail)?;
    let outcomes = stage.ask(CALLERS).await;
    let errors: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    let told = errors.first().map(|error| stage.short(error)).unwrap_or_default();
    let same = errors.windows(2).all(|pair| Arc::ptr_eq(&pair[0], &pair[1]));
    report(
        "64 callers, the plugin fails",
        format!("{} told the same, {}", errors.len(), runs(stage.runs())),
        errors.len() == 64 && same && stage.runs() == 1,
    );
    report("  what they are told", told.clone(), told.contains("please log in"));
    stage.behave(Behaviour::Answer)?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let recovered = stage.flight().get().await.is_ok();
    report("a second later, the plugin works again", runs(stage.runs()), recovered && stage.runs() == 2);

    let stage = Stage::new()?;
    stage.behave(Behaviour::Hang)?;
    let error = stage.flight().get().await.err();
    let ended = error.as_deref().and_then(Error::time_limit);
    report("the plugin hangs", error.map(|error| stage.short(&error)).unwrap_or_default(), ended.is_some());

    printer.line("");
    printer.line(if held { "All of it held." } else { "Not all of it held." });
    Ok(held)
}

fn runs(count: usize) -> String {
    format!("{count} plugin run{}", if count == 1 { "" } else { "s" })
}
