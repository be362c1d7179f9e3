//! A process runner that acts as the user's browser.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use credlet_exec::{CommandSpec, CompletedProcess, ProcessExit, ProcessRunner, RunError};
use tokio::sync::watch;
use zeroize::Zeroizing;

use credlet_testkit::browser::BrowserProfile;

/// Follows all redirects, as browsers do.
#[derive(Clone)]
pub(crate) struct FakeBrowser {
    /// Arguments of every started program.
    pub(crate) started: Arc<Mutex<Vec<Vec<String>>>>,
    /// The last page of every visit.
    pub(crate) pages: watch::Sender<Vec<String>>,
    /// Whether the user completes the login in the window.
    pub(crate) is_used: bool,
}

impl Default for FakeBrowser {
    fn default() -> Self {
        Self { started: Arc::default(), pages: watch::Sender::new(Vec::new()), is_used: true }
    }
}

impl FakeBrowser {
    pub(crate) fn windows(&self) -> usize {
        self.started.lock().unwrap().len()
    }

    /// The only page that was shown.
    pub(crate) async fn page(&self) -> String {
        let mut pages = self.pages.subscribe();
        let pages = pages.wait_for(|pages| !pages.is_empty()).await.unwrap();
        assert_eq!(pages.len(), 1);
        pages[0].clone()
    }
}

impl ProcessRunner for FakeBrowser {
    fn run(
        &self,
        program: CommandSpec,
    ) -> Pin<Box<dyn Future<Output = Result<CompletedProcess, RunError>> + Send + '_>> {
        let url = program.args.last().unwrap().clone();
        self.started.lock().unwrap().push(program.args);
        if self.is_used {
            let pages = self.pages.clone();
            std::thread::spawn(move || {
                let page = BrowserProfile::default().follow(&url);
                pages.send_modify(|pages| pages.push(page));
            });
        }
        let finished = CompletedProcess {
            exit: ProcessExit::Exited(0),
            stdout: Zeroizing::default(),
            stderr: Zeroizing::default(),
        };
        Box::pin(async { Ok(finished) })
    }
}

impl fmt::Debug for FakeBrowser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FakeBrowser")
    }
}
