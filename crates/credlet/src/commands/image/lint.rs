use std::sync::Arc;

use credlet_core::{StderrSink, SystemRunner, World};
use credlet_image::{Config, ConfigError, ImageCredentials, Options, lint};
use serde_json::json;

use super::super::Outcome;
use super::source::Source;
use crate::exit::Exit;
use crate::printer::{Format, FormatArg, Printer, style};

/// Check a configuration of providers: everything wrong with it, and what is suspicious
///
/// Nothing is run. Ends with code 0 if all is well, with code 1 if something is surely not meant so (or, with --strict,
/// only suspicious), and with code 2 if a kubelet would not start with it: fit for CI, and for ExecStartPre= of systemd.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// End with code 1 for what is only suspicious, too
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    output: FormatArg,
}

pub(crate) fn run(args: Args) -> Outcome {
    let config = args.source.config()?;
    let checked = match args.source.bin_dir() {
        Ok(bin_dir) => {
            let world = World { runner: Arc::new(SystemRunner::with_stderr(StderrSink::Discard)), ..World::system() };
            ImageCredentials::load(&config, bin_dir, Options::default(), world).map(drop)
        }
        // Without the binaries the rest can be checked all the same.
        Err(_) => Ok(()),
    };
    let read = checked.and_then(|()| Config::read(&config));
    let mut printer = Printer::default();
    let exit = match read {
        Err(ConfigError { mistakes }) => {
            let lines: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
            print(&mut printer, args.output.format, &lines, &[], &[], None);
            Exit::Usage
        }
        Ok(config) => {
            let (wrong, odd): (Vec<_>, Vec<_>) =
                lint(&config).into_iter().partition(|finding| finding.suspicion.is_mistake());
            let text = |findings: &[credlet_image::Finding]| -> Vec<String> {
                findings.iter().map(ToString::to_string).collect()
            };
            print(&mut printer, args.output.format, &[], &text(&wrong), &text(&odd), Some(&config));
            if !wrong.is_empty() || args.strict && !odd.is_empty() { Exit::Refused } else { Exit::Ok }
        }
    };
    printer.done()?;
    Ok(exit)
}

fn print(
    printer: &mut Printer,
    format: Format,
    mistakes: &[String],
    wrong: &[String],
    odd: &[String],
    config: Option<&Config>,
) {
    if format != Format::Text {
        let object = json!({
            "usable": mistakes.is_empty(),
            "hash": config.map(|config| &config.hash),
            "mistakes": mistakes,
            "errors": wrong,
            "warnings": odd,
        });
        return printer.object(&object, format);
    }
    let style = style::stdout();
    let lists = [(style.bad("error:"), mistakes), (style.bad("error:"), wrong), (style.warning("warning:"), odd)];
    for (lead, lines) in lists {
        lines.iter().for_each(|line| printer.line(format!("{lead} {}", credlet_api::visible(line))));
    }
    if let Some(config) = config {
        printer.line(format!("{} providers, {}", config.providers.len(), config.hash));
    }
}
