//! Environment variables of a terminal or login session, on which no credential depends.
//!
//! The key of a cached credential or exec proxy contains everything that can influence the plugin: the whole environment,
//! except for the variables of this list. Without it, two terminals would never share a credential. A variable is on the list
//! only if it is set anew for each terminal, session or job, or concerns display alone. In doubt a variable is not on it:
//! the cost is one more run of the plugin.

use std::ffi::OsStr;

/// Excluded whatever their value. Sorted for binary search.
const NAMES: [&str; 113] = [
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORFGBG",
    "COLORTERM",
    "COLUMNS",
    "DESKTOP_SESSION",
    "DESKTOP_STARTUP_ID",
    "DISPLAY",
    "EDITOR",
    "FORCE_COLOR",
    "GDMSESSION",
    "GNOME_DESKTOP_SESSION_ID",
    "GNOME_SETUP_DISPLAY",
    "GNOME_SHELL_SESSION_MODE",
    "GPG_TTY",
    "GREP_COLOR",
    "GREP_COLORS",
    "GTK_IM_MODULE",
    "HISTCONTROL",
    "HISTFILE",
    "HISTFILESIZE",
    "HISTSIZE",
    "IM_CONFIG_CHECK_ENV",
    "IM_CONFIG_PHASE",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LANG",
    "LANGUAGE",
    "LC_ADDRESS",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_IDENTIFICATION",
    "LC_MEASUREMENT",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NAME",
    "LC_NUMERIC",
    "LC_PAPER",
    "LC_TELEPHONE",
    "LC_TERMINAL",
    "LC_TERMINAL_VERSION",
    "LC_TIME",
    "LESS",
    "LESSCLOSE",
    "LESSOPEN",
    "LINES",
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LSCOLORS",
    "LS_COLORS",
    "MAIL",
    "MAILCHECK",
    "MAILTO",
    "MANAGERPID",
    "MANAGERPIDFDID",
    "MANPAGER",
    "MEMORY_PRESSURE_WATCH",
    "MEMORY_PRESSURE_WRITE",
    "MOTD_SHOWN",
    "NOTIFY_SOCKET",
    "NO_COLOR",
    "OLDPWD",
    "PAGER",
    // go-plugin, for example under Terraform: a certificate and a directory for each start.
    "PLUGIN_CLIENT_CERT",
    "PLUGIN_UNIX_SOCKET_DIR",
    "PROMPT_COMMAND",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    // The working directory itself is taken into account where an argument is relative.
    "PWD",
    "QT_ACCESSIBILITY",
    "QT_IM_MODULE",
    "SESSION_MANAGER",
    "SHELL",
    "SHLVL",
    "SSH_AGENT_LAUNCHER",
    "SSH_AGENT_PID",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "STY",
    // The command line, which differs with each command. SUDO_USER, SUDO_UID and SUDO_GID are not excluded.
    "SUDO_COMMAND",
    "SYSTEMD_EXEC_PID",
    "TERM",
    "TERM_FEATURES",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TERM_SESSION_ID",
    "TMUX",
    "TMUX_PANE",
    "TMUX_TMPDIR",
    "VISUAL",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "WAYLAND_DISPLAY",
    "WINDOW",
    "WINDOWID",
    "WINDOWPATH",
    "WT_PROFILE_ID",
    "WT_SESSION",
    "XAUTHORITY",
    "XDG_ACTIVATION_TOKEN",
    "XDG_CURRENT_DESKTOP",
    "XDG_DATA_DIRS",
    "XDG_MENU_PREFIX",
    "XDG_SEAT",
    "XDG_SEAT_PATH",
    "XDG_VTNR",
    "XMODIFIERS",
    "_",
];

/// Excluded names on macOS: variables of launchd and of the application that started the process.
const MACOS_NAMES: [&str; 8] = [
    "Apple_PubSub_Socket_Render",
    "COMMAND_MODE",
    "LaunchInstanceID",
    "SECURITYSESSIONID",
    "XPC_FLAGS",
    "XPC_SERVICE_NAME",
    "__CFBundleIdentifier",
    "__CF_USER_TEXT_ENCODING",
];

/// Prefixes of excluded names: variables of terminal emulators and desktop sessions.
const PREFIXES: [&str; 11] = [
    "ALACRITTY_",
    "GHOSTTY_",
    "GNOME_TERMINAL_",
    "ITERM_",
    "KITTY_",
    "KONSOLE_",
    "TMUX_PLUGIN_",
    "VTE_",
    "WEZTERM_",
    "XDG_SESSION_",
    "ZELLIJ",
];

/// Whether a variable is excluded from what a credential depends on.
///
/// `XDG_RUNTIME_DIR`, `DBUS_SESSION_BUS_ADDRESS`, `GNOME_KEYRING_CONTROL`, `SSH_AUTH_SOCK` and `XDG_CONFIG_DIRS` are excluded
/// only with a value that the session manager or sshd sets for this user: cron and systemd do not set them, but with another
/// value they select another agent, another keyring or another configuration.
pub fn is_session_variable(name: &OsStr, value: &OsStr) -> bool {
    let Ok(name) = std::str::from_utf8(name.as_encoded_bytes()) else { return false };
    if NAMES.binary_search(&name).is_ok() || PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return true;
    }
    if cfg!(target_os = "macos") && MACOS_NAMES.contains(&name) {
        return true;
    }
    let Ok(value) = std::str::from_utf8(value.as_encoded_bytes()) else { return false };
    match name {
        "XDG_RUNTIME_DIR" => value == runtime_dir(),
        "DBUS_SESSION_BUS_ADDRESS" => value == format!("unix:path={}/bus", runtime_dir()),
        "GNOME_KEYRING_CONTROL" => value == format!("{}/keyring", runtime_dir()),
        "SSH_AUTH_SOCK" => is_session_agent(value),
        "XDG_CONFIG_DIRS" => {
            value.split(':').all(|dir| dir == "/etc/xdg" || dir.strip_prefix("/etc/xdg/xdg-").is_some_and(is_plain))
        }
        _ => false,
    }
}

/// Directory in which logind creates the sockets of the effective user's session.
fn runtime_dir() -> String {
    format!("/run/user/{}", rustix::process::geteuid().as_raw())
}

/// Whether the socket is that of an agent of a desktop session, systemd unit or GnuPG, or a forwarded agent's, created by sshd.
fn is_session_agent(socket: &str) -> bool {
    let of_session = ["keyring/ssh", "gcr/ssh", "ssh-agent.socket", "openssh_agent", "gnupg/S.gpg-agent.ssh"];
    if let Some(rest) = socket.strip_prefix(&runtime_dir()).and_then(|rest| rest.strip_prefix('/')) {
        return of_session.contains(&rest);
    }
    if cfg!(target_os = "macos") && is_launchd_agent(socket) {
        return true;
    }
    let forwarded = socket.strip_prefix("/tmp/ssh-").and_then(|rest| rest.split_once("/agent."));
    forwarded.is_some_and(|(random, pid)| {
        let digits = !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit());
        digits && random.len() >= 10 && is_plain(random)
    })
}

/// Whether the socket is that of the agent that launchd starts: `/private/tmp/com.apple.launchd.RANDOM/Listeners`, in later
/// releases below `/var/run`.
fn is_launchd_agent(socket: &str) -> bool {
    let parents = ["/private/tmp/", "/private/var/run/", "/var/run/"];
    let name = parents.iter().find_map(|parent| socket.strip_prefix(parent));
    let random = name.and_then(|name| name.strip_prefix("com.apple.launchd.")?.strip_suffix("/Listeners"));
    random.is_some_and(is_plain)
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excluded(name: &str, value: &str) -> bool {
        is_session_variable(name.as_ref(), value.as_ref())
    }

    #[test]
    fn names_are_sorted() {
        assert!(NAMES.is_sorted() && PREFIXES.is_sorted());
    }

    #[test]
    fn excludes_terminal_and_session_variables() {
        for name in
            ["TERM", "TMUX_PANE", "SSH_TTY", "_", "LC_ALL", "XDG_SESSION_ID", "INVOCATION_ID", "MAILTO", "SHELL"]
        {
            assert!(excluded(name, "x"), "{name}");
        }
    }

    #[test]
    fn keeps_variables_that_select_credentials() {
        for name in [
            "USER",
            "LOGNAME",
            "HOME",
            "PATH",
            "KUBECONFIG",
            "KRB5CCNAME",
            "OS_USERNAME",
            "GITHUB_TOKEN",
            "BROWSER",
            "XDG_CONFIG_HOME",
            "XDG_CACHE_HOME",
            "LD_PRELOAD",
            "HTTPS_PROXY",
            "SUDO_USER",
            "LC_WHO",
            "TERM_USER",
            "TZ",
            "TMUX_USER",
            "SSH_ASKPASS",
            "SSH_ORIGINAL_COMMAND",
            "CREDENTIALS_DIRECTORY",
            "GIT_ASKPASS",
        ] {
            assert!(!excluded(name, "x"), "{name}");
        }
    }

    #[test]
    fn excludes_only_session_sockets() {
        let own = |rest: &str| format!("/run/user/{}{rest}", rustix::process::geteuid().as_raw());
        assert!(excluded("XDG_RUNTIME_DIR", &own("")));
        assert!(!excluded("XDG_RUNTIME_DIR", "/home/ada/run"));
        assert!(excluded("DBUS_SESSION_BUS_ADDRESS", &format!("unix:path={}", own("/bus"))));
        assert!(!excluded("DBUS_SESSION_BUS_ADDRESS", "unix:path=/home/ada/bus"));
        for agent in [own("/keyring/ssh"), "/tmp/ssh-XXXXabcdef/agent.4711".to_owned()] {
            assert!(excluded("SSH_AUTH_SOCK", &agent), "{agent}");
        }
        for agent in [own("/other"), own("/../x"), "/home/ada/agent".to_owned(), "/tmp/ssh-x/agent.prod".to_owned()] {
            assert!(!excluded("SSH_AUTH_SOCK", &agent), "{agent}");
        }
        assert!(excluded("XDG_CONFIG_DIRS", "/etc/xdg/xdg-ubuntu:/etc/xdg"));
        assert!(!excluded("XDG_CONFIG_DIRS", "/etc/prod:/etc/xdg"));
    }

    #[test]
    fn variables_of_launchd_count_on_macos_only() {
        for (name, value) in [
            ("XPC_SERVICE_NAME", "0"),
            ("__CFBundleIdentifier", "com.apple.Terminal"),
            ("SSH_AUTH_SOCK", "/private/tmp/com.apple.launchd.aBc123/Listeners"),
        ] {
            assert_eq!(excluded(name, value), cfg!(target_os = "macos"), "{name}");
        }
        assert!(is_launchd_agent("/var/run/com.apple.launchd.aBc123/Listeners"));
        for other in ["/tmp/com.apple.launchd.a/Listeners", "/var/run/com.apple.launchd.a/b/Listeners", "/var/run/x"] {
            assert!(!is_launchd_agent(other), "{other}");
        }
    }
}
