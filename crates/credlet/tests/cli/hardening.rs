//! Isolation of `credlet run` from its command, and the directories in which files are created.
//!
//! Root may read everything, so these tests run the program as another user if they run as root.

#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use credlet_api::Secret;
use credlet_platform::dirs::{CACHE_IN_HOME, DATA_IN_HOME};
use tempfile::TempDir;

use super::support::{CREDLET, CliSandbox, CommandOutput};

/// User ids that no account has.
const USER: u32 = 64_003;
const OTHER: u32 = 64_004;

/// A user with a home directory, a kubeconfig with a token, and a copy of the program.
struct UserAccount {
    home: CliSandbox,
    dir: TempDir,
    uid: u32,
    token: Secret,
}

impl UserAccount {
    fn new() -> Self {
        let home = CliSandbox::empty();
        let token = home.watch.secret("token");
        home.server.accept_token_as(token.expose(), "ada");
        let dir = tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir().unwrap();
        let root = rustix::process::geteuid().is_root();
        let uid = if root { USER } else { rustix::process::geteuid().as_raw() };
        let account = Self { home, dir, uid, token };
        fs::create_dir(account.path(".kube")).unwrap();
        fs::copy(account.home.path("ca.pem"), account.path("ca.pem")).unwrap();
        let config = account.home.config(&format!("{{token: {}}}", account.token.expose()));
        let (theirs, ours) = (account.path("ca.pem"), account.home.path("ca.pem"));
        let config = config.replace(ours.to_str().unwrap(), theirs.to_str().unwrap());
        fs::write(account.path(".kube/config"), config).unwrap();
        // Written by another process: a child of another test could inherit the open file, and the program could not be executed (ETXTBSY).
        #[expect(clippy::disallowed_methods, reason = "a test plays the person at the shell")]
        let copied = Command::new("cp").arg(CREDLET).arg(account.path("credlet")).status().unwrap();
        assert!(copied.success());
        if root {
            for name in ["", ".kube", ".kube/config", "ca.pem", "credlet"] {
                chown(account.path(name), Some(uid), Some(uid)).unwrap();
            }
        }
        account
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs a shell script as this user. `$CREDLET` is the program.
    fn script(&self, script: &str, env: &[(&str, &Path)]) -> CommandOutput {
        #[expect(clippy::disallowed_methods, reason = "a test plays the person at the shell")]
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).env_clear().env("HOME", self.dir.path()).env("PATH", "/usr/bin:/bin");
        command.env("CREDLET", self.path("credlet")).envs(env.iter().copied()).current_dir("/").stdin(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(self.uid).gid(self.uid);
        }
        self.home.finish(command)
    }

    /// Creates a directory beside the home directory.
    fn dir_of(&self, name: &str, owner: u32, mode: u32) -> PathBuf {
        let path = self.home.path(name);
        fs::set_permissions(self.home.dir(), Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(owner), Some(owner)).unwrap();
        }
        path
    }
}

/// A process that may attach a debugger may read `/proc/PID/environ` and `mem`.
#[test]
fn command_cannot_read_memory_of_its_parent() {
    if !Path::new("/proc/self/environ").exists() {
        println!("skipped: this system has no /proc");
        return;
    }
    let account = UserAccount::new();
    let look = "for file in environ mem maps auxv; do (exec 3</proc/$PPID/$file) 2>/dev/null && echo $file; done; \
                ls /proc/$PPID/fd >/dev/null 2>&1 && echo fd; (exec 3</proc/self/environ) && echo own";
    for verb in ["run -- /bin/sh", "shell /bin/sh --"] {
        let output = account.script(&format!("exec $CREDLET {verb} -c '{look}'"), &[]);
        assert_eq!(output.data(), "own\n", "{verb}");
    }
}

#[test]
fn command_has_its_core_limit_and_its_parent_has_none() {
    let account = UserAccount::new();
    let limits = "ulimit -S -c; ulimit -H -c; sed -n \"s/^Max core file size *//p\" /proc/$PPID/limits";
    let output = account.script(
        &format!(
            "ulimit -S -c $(ulimit -H -c); ulimit -S -c; ulimit -H -c; exec $CREDLET run -- /bin/sh -c '{limits}'"
        ),
        &[],
    );
    let lines: Vec<_> = output.data().lines().collect();
    assert_eq!(lines[..2], lines[2..4], "soft and hard limit of the command are as before");
    if let Some(parent) = lines.get(4) {
        assert_eq!(parent.split_whitespace().next(), Some("0"), "{parent}");
    }
    if lines[0] == "0" {
        println!("partly skipped: the hard limit for core dumps is 0 here");
    }
}

#[test]
fn command_inherits_only_given_fds() {
    let account = UserAccount::new();
    let open = "for number in 7 8; do (: <&$number) 2>/dev/null && echo $number; done; echo $1";
    let output = account.script(&format!("exec 7</dev/null; exec $CREDLET run -- /bin/sh -c '{open}' sh a"), &[]);
    assert_eq!(output.data(), "7\na\n");
    // Files that a library has opened are closed before exec.
    let output = account
        .script(&format!("exec 7</dev/null 8</dev/null; exec $CREDLET run-command 8 /bin/sh -c '{open}' sh a"), &[]);
    assert_eq!(output.data(), "7\na\n");
    let output = account.script("KUBERNETES_EXEC_INFO= exec $CREDLET run-command 8 /bin/echo hello", &[]);
    assert!(output.failure(2).contains("is internal to `credlet run`"), "{output:?}");
}

/// Another user must not be able to replace the kubeconfig of `credlet run`.
#[test]
fn tmpdir_of_another_user_is_not_used() {
    let account = UserAccount::new();
    if account.uid == 0 {
        return;
    }
    let below_home = account.dir.path().canonicalize().unwrap().join(CACHE_IN_HOME).join("credlet/run");
    let where_is = |tmp: &Path| {
        let output = account
            .script("exec $CREDLET run -- /bin/sh -c 'echo $KUBECONFIG; $CREDLET get /readyz'", &[("TMPDIR", tmp)]);
        let (path, answer) = output.data().split_once('\n').unwrap();
        assert_eq!(answer, "ok");
        PathBuf::from(path)
    };
    let name = format!("credlet-{}", account.uid);
    let good = account.dir_of("good", OTHER, 0o1777);
    if rustix::process::geteuid().is_root() {
        // The owner of a sticky directory can still replace files in it.
        assert!(where_is(&good).starts_with(&below_home));
        chown(&good, Some(0), Some(0)).unwrap();
    }
    assert!(where_is(&good).starts_with(good.join(&name)));
    let open = account.dir_of("open", OTHER, 0o777);
    assert!(where_is(&open).starts_with(&below_home));
    assert_eq!(fs::metadata(&below_home).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::read_dir(&open).unwrap().count(), 0);
}

#[test]
fn proxy_starts_despite_a_foreign_directory() {
    let account = UserAccount::new();
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can play two users");
        return;
    }
    let tmp = account.dir_of("tmp", 0, 0o1777);
    let taken = account.dir_of(&format!("tmp/credlet-{}", account.uid), OTHER, 0o777);
    let headers = account.path("headers");
    fs::write(&headers, format!("authorization: Bearer {}\n", account.token.expose())).unwrap();
    chown(&headers, Some(account.uid), None).unwrap();
    let config = fs::read_to_string(account.path(".kube/config")).unwrap();
    let user = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, provideClusterInfo: true, \
         command: '{}', args: [proxy, headers, --file, '{}']}}}}",
        account.path("credlet").display(),
        headers.display()
    );
    let (before, _) = config.split_once("  user: ").unwrap();
    let config = account.path("proxied");
    fs::write(&config, format!("{before}  user: {user}\n")).unwrap();
    chown(&config, Some(account.uid), None).unwrap();
    let env: &[(&str, &Path)] = &[("TMPDIR", &tmp), ("KUBECONFIG", &config)];
    assert_eq!(account.script("exec $CREDLET get /readyz", env).data(), "ok");
    // Every process uses the same directory.
    assert!(account.script("exec $CREDLET proxy ls", env).data().contains("0 open"));
    assert!(account.path(&format!("{CACHE_IN_HOME}/credlet/run")).is_dir());
    // It is also used after the other user has removed the directory.
    fs::remove_dir(&taken).unwrap();
    assert!(account.script("exec $CREDLET proxy stop --all", env).data().contains("stopped"));
}

#[test]
fn nothing_is_created_in_the_home_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can play two users");
        return;
    }
    let account = UserAccount::new();
    let list = || {
        let mut found: Vec<_> =
            fs::read_dir(account.dir.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        found.sort_unstable();
        found
    };
    let before = list();
    #[expect(clippy::disallowed_methods, reason = "a test plays the person at the shell")]
    let mut command = Command::new(CREDLET);
    command.args(["bridge", "convert", "--", "exec", "--", "x"]).env_clear().env("HOME", account.dir.path());
    command.env("XDG_RUNTIME_DIR", account.home.dir()).stdin(Stdio::null());
    let output = account.home.finish(command);
    assert!(output.failure(2).contains("belongs to another user (uid 64003)"), "{output:?}");
    assert_eq!(list(), before);
}

#[test]
fn bridge_keys_ignore_the_umask() {
    let account = UserAccount::new();
    let output = account.script("umask 000; exec $CREDLET bridge convert -- exec -- x", &[]);
    assert!(output.data().contains("converted"), "{output:?}");
    let dir = account.path(&format!("{DATA_IN_HOME}/credlet/bridges"));
    for part in dir.ancestors().take_while(|part| *part != account.dir.path()) {
        assert_eq!(fs::metadata(part).unwrap().mode() & 0o777, 0o700, "{part:?}");
    }
    for entry in fs::read_dir(&dir).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().mode() & 0o777, 0o600);
    }
    fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
    fs::rename(account.path(".kube/config"), account.path("old")).unwrap();
    let backup = fs::read_dir(account.path(".kube")).unwrap().map(|entry| entry.unwrap().path()).next().unwrap();
    fs::rename(backup, account.path(".kube/config")).unwrap();
    let output = account.script("exec $CREDLET bridge convert -- exec -- x", &[]);
    assert!(output.failure(2).contains("is open to other users (mode 0777)"), "{output:?}");
}

#[test]
fn pipes_and_devices_are_not_read() {
    let account = UserAccount::new();
    let pipe = account.path("pipe");
    credlet_testkit::make_fifo(&pipe);
    chown(&pipe, Some(account.uid), None).unwrap();
    let info = "export KUBERNETES_EXEC_INFO='{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\
                \"ExecCredential\",\"spec\":{\"interactive\":false,\"lockFilePath\":\"/nowhere\"}}'";
    for path in [pipe.as_path(), Path::new("/dev/zero")] {
        let path = path.display();
        for command in [
            format!("proxy headers --server https://127.0.0.1:1 --certificate-authority {path} --file /nowhere"),
            format!("proxy headers --foreground --server https://127.0.0.1:1 --file {path}"),
        ] {
            let output = account.script(&format!("{info}; exec $CREDLET {command}"), &[]);
            assert!(output.stderr.contains("is not a regular file"), "{command}: {output:?}");
        }
        let output = account.script(&format!("exec $CREDLET bridge convert --kubeconfig {path} -- exec -- x"), &[]);
        assert_ne!(output.code, Some(0), "{output:?}");
    }
}
