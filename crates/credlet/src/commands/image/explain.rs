use credlet_image::Line;

use super::super::Outcome;
use super::object;
use super::source::{Source, Who};
use crate::args::Global;
use crate::exit::Exit;
use crate::printer::{Format, FormatArg, Printer, style};
use crate::runtime;

/// Tell how it comes to the credentials for an image: which providers are asked, and what of their answers is used
///
/// Ends with code 0 if there is a credential, and with code 3 if the image would be pulled anonymously.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The image
    image: String,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    output: FormatArg,
}

pub(crate) fn run(args: Args, global: &Global) -> Outcome {
    runtime::run(global.in_time(async {
        let ready = args.source.ready(&args.who, global).await?;
        let look_up = ready.look_up(&args.image).await?;
        let mut printer = Printer::default();
        match args.output.format {
            Format::Text => {
                printer.foreign(&format!("{} is looked up as {}", args.image, look_up.image));
                for step in &look_up.trace.steps {
                    printer.foreign(&format!("\n{}", step.provider));
                    step.story().iter().for_each(|line| printer.line(format!("  {}", painted(line))));
                }
                let count = look_up.credentials.len();
                printer.line(match count {
                    0 => "\nThe image would be pulled anonymously.".to_owned(),
                    1 => "\nOne credential would be tried.".to_owned(),
                    _ => format!("\n{count} credentials would be tried, one after the other."),
                });
                let no_account = look_up
                    .credentials
                    .iter()
                    .any(|found| !matches!(&found.origin, credlet_image::Origin::Provider { account: Some(_), .. }));
                if no_account {
                    printer.line("Once pulled so, a node gives the image to every pod that asks for it by policy.");
                }
            }
            format => printer.object(&object::trace(&look_up), format),
        }
        printer.done()?;
        Ok(if look_up.credentials.is_empty() { Exit::NoCredential } else { Exit::Ok })
    }))
}

fn painted(line: &Line) -> String {
    let (style, text) = (style::stdout(), credlet_api::visible(&line.text));
    match line.good {
        Some(true) => format!("{} {text}", style.good("✓")),
        Some(false) => format!("{} {text}", style.bad("✗")),
        None => format!("{} {text}", style.strong("hint:")),
    }
}
