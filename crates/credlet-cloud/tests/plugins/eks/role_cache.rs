//! An assumed role is cached for the identity that assumed it, and for no other.

use std::sync::Arc;
use std::time::Duration;

use credlet_exec::ManualClock;
use credlet_platform::dirs::CACHE_IN_HOME;

use crate::support::{FakeEndpoint, FakeReply, NOW, Sandbox, assumed, files_in, watched_jwt};

const LATER: &str = "2026-11-15T20:17:49Z";

/// Starts an STS that returns keys named after the access key that signed the request.
fn sts(sandbox: &mut Sandbox) -> FakeEndpoint {
    let sts = FakeEndpoint::start(|request| {
        if request.field("Action") == "GetCallerIdentity" {
            return FakeReply::Status(200, "<A><Arn>arn:aws:sts::1:assumed-role/dev/ada</Arn></A>".into());
        }
        let by = request.header("authorization").split_once("Credential=").unwrap().1.split('/').next().unwrap();
        assumed(&format!("ROLE-FOR-{by}"), "s", "t", LATER)
    });
    sandbox.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    sts
}

/// Configures a `credential_process` that prints the key of the user in `.whoami`, fails without that file, and counts its runs.
fn process(extra: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let home = sandbox.home.path().display();
    let script = format!(
        "echo run >> {home}/runs\nwho=$(/bin/cat {home}/.whoami) || exit 1\n\
         echo '{{\"Version\":1,\"AccessKeyId\":\"AK'$who'\",\"SecretAccessKey\":\"s\"{extra}}}'\n"
    );
    let script = sandbox.file("process.sh", &script);
    sandbox.config(&format!(
        "[profile role]\nrole_arn = role\nsource_profile = base\n\
         [profile top]\nrole_arn = top\nsource_profile = role\n\
         [profile base]\ncredential_process = /bin/sh {}\n",
        script.display()
    ))
}

fn runs(sandbox: &Sandbox) -> usize {
    std::fs::read_to_string(sandbox.home.path().join("runs")).unwrap_or_default().lines().count()
}

#[test]
fn role_cache_follows_process_identity() {
    for (line, role) in [
        ("-i demo --profile role", "ROLE-FOR-AK"),
        ("-i demo --profile base -r arn:x", "ROLE-FOR-AK"),
        ("-i demo --profile base -r arn:x --forward-session-name", "ROLE-FOR-AK"),
        ("-i demo --profile top", "ROLE-FOR-ROLE-FOR-AK"),
    ] {
        let mut sandbox = process("");
        let sts = sts(&mut sandbox);
        sandbox.file(".whoami", "ada");
        assert_eq!(sandbox.eks(line).access_key_id(), format!("{role}ada"), "{line}");
        let requests = sts.seen().len();
        assert_eq!(sandbox.eks(line).access_key_id(), format!("{role}ada"), "{line}");
        assert!(line.contains("--forward") || sts.seen().len() == requests, "{line}: cached");
        sandbox.file(".whoami", "bob");
        assert_eq!(sandbox.eks(line).access_key_id(), format!("{role}bob"), "{line}");
        assert_eq!(runs(&sandbox), 3, "{line}: one run of the process for each call");
        std::fs::remove_file(sandbox.home.path().join(".whoami")).unwrap();
        sandbox.eks(line).error();
        sandbox.file(".whoami", "ada");
        assert_eq!(sandbox.eks(line).access_key_id(), format!("{role}ada"), "{line}");
    }
}

#[test]
fn role_cache_follows_sso_login() {
    let mut sandbox = Sandbox::new().config(
        "[profile role]\nrole_arn = role\nsource_profile = sso\n\
         [profile sso]\nsso_account_id = 1\nsso_role_name = r\nsso_region = eu-west-1\nsso_start_url = start\n",
    );
    let _sts = sts(&mut sandbox);
    let portal = FakeEndpoint::start(|request| {
        let who = request.header("x-amz-sso_bearer_token").to_owned();
        FakeReply::Status(
            200,
            format!(
                r#"{{"roleCredentials":{{"accessKeyId":"AK{who}","secretAccessKey":"s","sessionToken":"t","expiration":1794773869000}}}}"#
            ),
        )
    });
    sandbox.set("AWS_ENDPOINT_URL_SSO", &*portal.url);
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, b"start");
    let name = credlet_api::hex(digest);
    let file = format!(".aws/sso/cache/{name}.json");
    for who in ["ada", "bob"] {
        sandbox.file(&file, format!(r#"{{"accessToken":"{who}","expiresAt":"2026-11-15T23:00:00Z"}}"#));
        for _ in 0..2 {
            assert_eq!(sandbox.eks("-i demo --profile role").access_key_id(), format!("ROLE-FOR-AK{who}"));
        }
    }
    assert_eq!(portal.seen().len(), 2, "cached for each login");
    std::fs::remove_file(sandbox.home.path().join(file)).unwrap();
    assert!(sandbox.eks("-i demo --profile role").error().contains("is missing"));
}

/// Starts a metadata service of an instance or a container with this access key.
fn place(id: &'static str) -> FakeEndpoint {
    FakeEndpoint::start(move |request| match (&*request.method, request.path.ends_with('/')) {
        ("PUT", _) => FakeReply::Status(200, "imds".into()),
        (_, true) => FakeReply::Status(200, "node".into()),
        _ => FakeReply::Status(
            200,
            format!(r#"{{"AccessKeyId":"{id}","SecretAccessKey":"s","Token":"t","Expiration":"{LATER}"}}"#),
        ),
    })
}

#[test]
fn shared_home_does_not_share_roles() {
    let (one, two) = (place("AKONE"), place("AKTWO"));
    let mut sandbox = Sandbox::new().config(
        "[profile machine]\nrole_arn = role\ncredential_source = Ec2InstanceMetadata\n\
         [profile container]\nrole_arn = role\ncredential_source = EcsContainer\n",
    );
    let _sts = sts(&mut sandbox);
    sandbox.set("AWS_EC2_METADATA_DISABLED", "false");
    for (place, role) in [(&one, "ROLE-FOR-AKONE"), (&two, "ROLE-FOR-AKTWO"), (&one, "ROLE-FOR-AKONE")] {
        sandbox.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", &*place.url);
        assert_eq!(sandbox.eks("-i demo --profile machine").access_key_id(), role);
        // All containers have the same address for different tasks.
        sandbox.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/x", place.url));
        assert_eq!(sandbox.eks("-i demo --profile container").access_key_id(), role);
    }
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    sandbox.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", format!("http://{nobody}"));
    sandbox.eks("-i demo --profile machine").error();
}

#[test]
fn role_does_not_outlive_source_credentials() {
    let clock = ManualClock::new(NOW.parse().unwrap());
    let mut sandbox = process(r#",\"Expiration\":\"2026-11-15T19:28:00Z\""#.replace('\\', "").as_str());
    sandbox.clock = Arc::new(clock.clone());
    let sts = sts(&mut sandbox);
    sandbox.file(".whoami", "ada");
    let line = "-i demo --profile role";
    assert_eq!(sandbox.eks(line).expires(), "2026-11-15T19:28:00Z");
    sandbox.eks(line).status();
    assert_eq!(sts.seen().len(), 1);
    clock.advance(Duration::from_secs(6 * 60));
    sandbox.eks(line).status();
    assert_eq!(sts.seen().len(), 2, "less than five minutes before the end");
}

#[test]
fn role_does_not_outlive_web_identity_token() {
    let mut sandbox = Sandbox::new().var("AWS_ROLE_ARN", "arn:r");
    let sts = FakeEndpoint::start(|_| assumed("AKROLE", "s", "t", LATER));
    sandbox.set("AWS_ENDPOINT_URL_STS", &*sts.url);
    // 2026-11-15T19:28:00Z
    let token = watched_jwt(&sandbox.watch, r#"{"sub":"pod","exp":1794770880}"#);
    let path = sandbox.file("token", token.expose());
    sandbox.set("AWS_WEB_IDENTITY_TOKEN_FILE", path.to_str().unwrap());
    assert_eq!(sandbox.eks("-i demo").expires(), "2026-11-15T19:28:00Z");
    sandbox.eks("-i demo").status();
    assert_eq!(sts.seen().len(), 1);
    std::fs::remove_file(path).unwrap();
    assert!(sandbox.eks("-i demo").error().contains("does not exist"));
}

#[test]
fn removes_old_roles() {
    let mut sandbox = process("");
    let _sts = sts(&mut sandbox);
    sandbox.file(".whoami", "ada");
    sandbox.eks("-i demo --profile role").status();
    let dir = sandbox.home.path().join(CACHE_IN_HOME).join("credlet/aws");
    let is_entry = |path: &std::path::PathBuf| path.extension().is_none();
    let old = files_in(&dir).into_iter().find(is_entry).unwrap();
    let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    std::fs::File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
    sandbox.file(".whoami", "bob");
    sandbox.eks("-i demo --profile role").status();
    assert!(!old.exists());
    assert_eq!(files_in(&dir).into_iter().filter(is_entry).count(), 1);
}

#[test]
fn reads_no_file_without_home_directory() {
    let mut sandbox = Sandbox::new();
    for home in ["", ".", "relative"] {
        sandbox.set("HOME", home);
        let run = sandbox.eks("-i demo");
        assert!(run.error().contains("profile `default` not found in ~/.aws/config or ~/.aws/credentials"), "{run:?}");
    }
    for name in ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CA_BUNDLE"] {
        for path in ["~/x", "~root/x"] {
            let mut sandbox = Sandbox::new().var("AWS_ROLE_ARN", "arn:r").var(name, path);
            sandbox.set("HOME", "");
            let run = sandbox.eks("-i demo");
            assert!(run.error().contains("begins with `~`, and that home directory is unknown"), "{name}: {run:?}");
        }
    }
}

#[test]
fn rejects_pipes_and_devices() {
    for file in ["/dev/zero", "/dev/tty", "/"] {
        for name in ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CA_BUNDLE"] {
            let run = Sandbox::new().var(name, file).eks("-i demo");
            assert!(run.error().contains(&format!("failed to read AWS configuration: {file} ")), "{name}: {run:?}");
        }
    }
    let sandbox = Sandbox::new();
    let pipe = sandbox.home.path().join("pipe");
    credlet_testkit::make_fifo(&pipe);
    let run = sandbox.var("AWS_CONFIG_FILE", pipe.to_str().unwrap()).eks("-i demo");
    assert!(run.error().contains("is not a regular file"), "{run:?}");
}
