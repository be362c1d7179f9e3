use credlet_testkit::logs::LeakCheck;

use super::*;

const PIN_ME: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

/// The same as [`plan`], but the cluster keeps its address.
fn proxy_url_plan() -> BridgePlan {
    BridgePlan { endpoint: BridgeEndpoint { port: 37443, mode: BridgeMode::ProxyUrl }, ..plan() }
}

fn plan() -> BridgePlan {
    let upstream = Cluster {
        server: "https://real.example:6443/k8s/x".into(),
        certificate_authority_data: b"real".to_vec(),
        tls_server_name: "kube".into(),
        ..Cluster::default()
    };
    let bridge = BridgeRecord::new("a1b2", upstream, "config.before-credlet");
    let endpoint = BridgeEndpoint { port: 37443, mode: BridgeMode::Server };
    BridgePlan::new(
        "prod",
        "ada",
        endpoint,
        PIN_ME,
        bridge,
        vec!["proxy".into(), "pkcs11".into(), "pkcs11:token=a b".into()],
    )
}

/// As kubectl writes it, with comments.
const BLOCK: &str = "\
# my clusters
apiVersion: v1
kind: Config
current-context: prod
clusters:
- cluster:
    # the real one
    certificate-authority-data: cmVhbA==
    server: https://real.example:6443/k8s/x # do not touch
    extensions:
    - name: minikube
      extension: {since: 3}
  name: prod
- name: other
  cluster: {server: 'https://other.example'}

contexts:
- context: {cluster: prod, user: ada}
  name: prod
users:
- name: ada   # me
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: aws
      args:
        - eks
      env:
      - {name: AWS_PROFILE, value: blue}
    as: bob

# the end
- name: eve
  user: {token: hers}
";

const INDENTED: &str = "\
users:
  - user:
      client-key-data: aHVudGVyMg==
      client-certificate-data: aHVudGVyMg==
    name: ada
clusters:
  - name: prod
    cluster:
      server: https://real.example:6443/k8s/x
contexts: []
";

const FLOW: &str = "{apiVersion: v1, clusters: [{name: prod, cluster: {server: 'https://real.example', extensions: []}}], \
                    users: [{name: ada, user: {token: \"hun}ter,2\"}}, {name: eve, user: {}}], contexts: []}\n";

const JSON: &str = r#"{
  "clusters": [ { "name": "prod", "cluster": { "server": "https://real.example" } } ],
  "users": [
    { "name": "ada", "user": { "username": "ada", "password": "hunter2" } }
  ]
}"#;

/// A value that ends with the line.
const SCALAR: &str = "users:\n- name: ada\n  user:\n    token: |\n      hunter2\n\n- name: eve\n  user: {}\nclusters:\n\
                      - name: prod\n  cluster:\n    server: https://real.example\n";

#[test]
fn converts_and_reverts_every_yaml_form() {
    let crlf = BLOCK.replace('\n', "\r\n");
    for text in [BLOCK, INDENTED, FLOW, JSON, SCALAR, &crlf, BLOCK.trim_end()] {
        let new = convert(text, &plan()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_ne!(&**new, text);
        let config = decoded(&new).unwrap();
        let cluster = &config.clusters.iter().find(|entry| entry.name == "prod").unwrap().item;
        assert_eq!(cluster.server.value.expose(), "https://127.0.0.1:37443/k8s/x");
        assert_eq!(cluster.certificate_authority_data.value.expose(), PIN_ME.as_bytes());
        assert_eq!(find(&new, "prod").unwrap().unwrap(), plan().bridge);
        let user = &config.users.iter().find(|entry| entry.name == "ada").unwrap().item;
        let exec = &user.exec.as_ref().unwrap().value;
        assert_eq!(exec.command.value, "credlet");
        assert_eq!(exec.args.value.last().unwrap().expose(), "pkcs11:token=a b");
        assert!(exec.provide_cluster_info.value);
        assert!(user.token.value.is_empty() && user.client_key_data.value.is_empty() && user.password.value.is_empty());
        assert_eq!(&**revert(&new, text, "prod", "ada").unwrap(), text);
    }
}

#[test]
fn proxy_url_mode_keeps_server() {
    let text = BLOCK.replace(
        "    extensions:\n    - name: minikube",
        "    proxy-url: http://corp:3128\n    tls-server-name: kube\n    extensions:\n    - name: minikube",
    );
    let insecure = INDENTED.replace("k8s/x\n", "k8s/x\n      insecure-skip-tls-verify: true\n");
    for text in [&text, &insecure, INDENTED, FLOW, JSON, SCALAR] {
        let new = convert(text, &proxy_url_plan()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let config = decoded(&new).unwrap();
        let cluster = &config.clusters.iter().find(|entry| entry.name == "prod").unwrap().item;
        assert_eq!(cluster.server.value.expose(), "https://real.example:6443/k8s/x");
        assert_eq!(cluster.proxy_url.value.expose(), "http://127.0.0.1:37443");
        assert_eq!(cluster.certificate_authority_data.value.expose(), PIN_ME.as_bytes());
        assert!(!cluster.insecure_skip_tls_verify.value && cluster.tls_server_name.value.is_empty());
        let bridge = find(&new, "prod").unwrap().unwrap();
        assert_eq!(bridge, plan().bridge);
        let endpoint = bridge.endpoint(cluster.server.value.expose(), cluster.proxy_url.value.expose());
        assert_eq!(endpoint, Some(proxy_url_plan().endpoint));
        assert_eq!(&**revert(&new, text, "prod", "ada").unwrap(), text);
        for again in [plan(), proxy_url_plan()] {
            let error = convert(&new, &again).unwrap_err();
            assert_eq!(error, BridgeError::Converted { cluster: "prod".into() });
        }
    }
    let mut plain = proxy_url_plan();
    plain.bridge.upstream.server = "http://real.example".into();
    assert_eq!(convert(BLOCK, &plain), Err(BridgeError::Plain));
    plain.endpoint.mode = BridgeMode::Server;
    assert!(convert(BLOCK, &plain).is_ok());
}

#[test]
fn keeps_foreign_content() {
    let new = convert(BLOCK, &plan()).unwrap();
    for kept in [
        "# my clusters\n",
        "name: ada   # me\n",
        "\n# the end\n",
        "  cluster: {server: 'https://other.example'}\n",
        "{token: hers}",
    ] {
        assert!(new.contains(kept), "{kept}\n{}", *new);
    }
    let config = decoded(&new).unwrap();
    let extensions = &config.clusters[0].item.extensions;
    assert_eq!(extensions[0].name, "minikube");
    assert_eq!(extensions[0].item.as_ref().unwrap().as_json(), r#"{"since":3}"#);
    let user = &config.users[0].item;
    assert_eq!(user.impersonate.value, "bob");
    let env = &user.exec.as_ref().unwrap().value.env;
    assert_eq!((env[0].name.as_str(), env[0].value.expose()), ("AWS_PROFILE", "blue"));
}

#[test]
fn revert_keeps_later_edits() {
    let new = convert(BLOCK, &plan()).unwrap();
    let edited = new.replace("# the end", "# the very end").replace("current-context: prod", "current-context: x");
    let back = revert(&edited, BLOCK, "prod", "ada").unwrap();
    let wanted = BLOCK.replace("# the end", "# the very end").replace("current-context: prod", "current-context: x");
    assert_eq!(*back, wanted);
}

/// `kubectl config set-context` and its like read the file and write all of it anew, without comments and in their own style.
#[test]
fn reverts_file_rewritten_by_kubectl() {
    let text = INDENTED
        .replace("k8s/x\n", "k8s/x\n\n  # as it is\n      insecure-skip-tls-verify: true\n")
        .replace("      client-key-data", "      token: |\n        hunter\n          2\n      client-key-data");
    let anew =
        "clusters:\n- cluster:\n    server: https://x\n  name: prod\nusers:\n- name: ada\n  user:\n    token: x\n";
    let anew = convert(anew, &plan()).unwrap();
    for (text, ending) in [(text.clone(), "\n"), (text.replace('\n', "\r\n"), "\r\n")] {
        let back = revert(&anew, &text, "prod", "ada").unwrap_or_else(|error| panic!("{error}"));
        for line in
            ["    insecure-skip-tls-verify: true\n", &format!("    token: |{ending}      hunter{ending}        2")]
        {
            assert!(back.contains(&format!("\n{line}")), "{line:?}\n{}", *back);
        }
        let (before, after) = (decoded(&text).unwrap(), decoded(&back).unwrap());
        let (then, now) = (&before.clusters[0].item, &after.clusters[0].item);
        assert_eq!(then.server.value, now.server.value);
        assert!(now.insecure_skip_tls_verify.value && now.extensions.is_empty());
        let (then, now) = (&before.users[0].item, &after.users[0].item);
        assert_eq!((&then.token.value, &then.client_key_data.value), (&now.token.value, &now.client_key_data.value));
        assert_eq!(now.token.value.expose(), "hunter\n  2\n");
    }
}

#[test]
fn rejects_block_in_flow() {
    let bridge = convert(FLOW, &plan()).unwrap();
    let block = "users: []\nclusters:\n- name: prod\n  cluster:\n    server: https://x\n    tls-server-name: kube\n";
    assert_eq!(revert(&bridge, block, "prod", "ada"), Err(BridgeError::Form));
    // A flow mapping may replace a block mapping.
    let bridge = convert(block, &plan()).unwrap();
    let back = revert(&bridge, FLOW, "prod", "ada").unwrap();
    assert_eq!(decoded(&back).unwrap().clusters[0].item.server.value.expose(), "https://real.example");
}

#[test]
fn keeps_impersonation() {
    let extra = r#"{"1.10": [a], "0x10": [b], "yes": [c], "a: b": ["x #y"], "*x": ["~"], "null": []}"#;
    let text = BLOCK.replace(
        "    as: bob\n",
        &format!("    as: \"007\"\n    as-groups: [\"no\", a]\n    as-user-extra: {extra}\n"),
    );
    let new = convert(&text, &plan()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let (then, now) = (decoded(&text).unwrap(), decoded(&new).unwrap());
    let (then, now) = (&then.users[0].item, &now.users[0].item);
    assert_eq!(then.impersonate_user_extra.value, now.impersonate_user_extra.value);
    assert!(now.impersonate_user_extra.value.contains_key("1.10"));
    assert_eq!(
        (&*now.impersonate.value, &now.impersonate_groups.value[..]),
        ("007", &["no".to_owned(), "a".to_owned()][..])
    );
}

#[test]
fn removes_secrets() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let text = format!(
        "clusters:\n- name: prod\n  cluster:\n    server: https://x\nusers:\n- name: ada\n  user:\n    token: {}\n",
        token.expose()
    );
    let new = convert(&text, &plan()).unwrap();
    assert!(!new.contains(token.expose()));
    watch.text(format!("{:?}", plan()));
}

#[test]
fn rejects_shared_yaml_nodes() {
    let anchored = BLOCK.replace("    exec:\n", "    exec: &e\n").replace("user: {token: hers}", "user: {exec: *e}");
    let tagged = BLOCK.replace("  user:\n    exec:", "  user: !!map\n    exec:");
    let twice = BLOCK.replace("- name: eve", "- name: ada");
    let null = BLOCK
        .replace("cluster: {server: 'https://other.example'}", "cluster:")
        .replace("name: prod\n-", "name: p\n-")
        .replace("name: other", "name: prod");
    for text in [&anchored, &tagged, &twice, &null] {
        assert!(convert(text, &plan()).is_err(), "{text}");
    }
    let named =
        BLOCK.replace("current-context: prod", "current-context: &n prod").replace("  name: prod\n-", "  name: *n\n-");
    assert_eq!(convert(&named, &plan()), Err(BridgeError::Form), "there is no copy yet that could be blamed");
    let error = convert(&convert(BLOCK, &plan()).unwrap(), &plan()).unwrap_err();
    assert_eq!(error, BridgeError::Converted { cluster: "prod".into() });
    assert!(matches!(convert("a: [", &plan()), Err(BridgeError::Unreadable(_))));
}

#[test]
fn plugin_reads_upstream() {
    let bridge = plan().bridge;
    let config = Some(RawExtension::from_value(&bridge.extension()));
    let cluster = |server: &str, config| Cluster { server: server.into(), config, ..Cluster::default() };
    let found = BridgeRecord::from_cluster(&cluster("https://127.0.0.1:37443/k8s/x", config.clone())).unwrap();
    assert_eq!(found, Some((bridge, plan().endpoint)));
    assert_eq!(BridgeRecord::from_cluster(&cluster("https://127.0.0.1:37443", None)).unwrap(), None);
    let foreign = RawExtension::from_json(r#"{"audience":"x"}"#).ok();
    assert_eq!(BridgeRecord::from_cluster(&cluster("https://127.0.0.1:37443", foreign)).unwrap(), None);
    for server in [
        "https://127.0.0.1",
        "https://127.0.0.1:0/k8s/x",
        "https://127.0.0.1:5",
        "https://evil.example:1",
        "http://127.0.0.1:5",
        "https://127.0.0.1:5/x",
    ] {
        assert_eq!(BridgeRecord::from_cluster(&cluster(server, config.clone())), Err(BridgeError::Port), "{server}");
    }
    // The same, by way of a proxy: clients differ in how they write both.
    let through = |server: &str, proxy_url: &str| {
        BridgeRecord::from_cluster(&Cluster { proxy_url: Secret::new(proxy_url), ..cluster(server, config.clone()) })
            .map(|found| found.unwrap().1)
    };
    for (server, proxy_url) in [
        ("https://real.example:6443/k8s/x", "http://127.0.0.1:37443"),
        ("https://REAL.example:6443/k8s/x/?a=b", "http://127.0.0.1:37443/"),
    ] {
        assert_eq!(through(server, proxy_url), Ok(proxy_url_plan().endpoint), "{server} {proxy_url}");
    }
    for (server, proxy_url) in [
        ("https://real.example:6443/k8s/x", ""),
        ("https://real.example:6443/k8s/x", "http://corp:3128"),
        ("https://real.example:6443/k8s/x", "https://127.0.0.1:37443"),
        ("https://real.example:6443/k8s/x", "http://127.0.0.1:0"),
        ("https://real.example:6443", "http://127.0.0.1:37443"),
        ("https://real.example/k8s/x", "http://127.0.0.1:37443"),
        ("http://real.example:6443/k8s/x", "http://127.0.0.1:37443"),
        ("https://evil.example:6443/k8s/x", "http://127.0.0.1:37443"),
    ] {
        assert_eq!(through(server, proxy_url), Err(BridgeError::Port), "{server} {proxy_url}");
    }
    for wrong in [
        r#"{"credlet":{"bridge":"../x","original":"","upstream":{"server":"https://a"}}}"#,
        r#"{"credlet":{"bridge":"a"}}"#,
    ] {
        let config = RawExtension::from_json(wrong).ok();
        assert_eq!(
            BridgeRecord::from_cluster(&cluster("https://127.0.0.1:1", config)),
            Err(BridgeError::Extension),
            "{wrong}"
        );
    }
}

#[test]
fn local_address_keeps_only_the_path() {
    for (server, wanted) in [
        ("https://real.example", "https://127.0.0.1:5"),
        ("https://real.example/", "https://127.0.0.1:5"),
        ("https://real.example:6443/a%2Fb/c/?x=1#y", "https://127.0.0.1:5/a%2Fb/c"),
        ("https://real.example?x=/y", "https://127.0.0.1:5"),
        ("invalid", "https://127.0.0.1:5"),
    ] {
        assert_eq!(local(5, server), wanted, "{server}");
        assert_eq!(port_of(wanted, "https"), Some(5));
    }
    assert_eq!(port_of("https://127.0.0.1:65536/x", "https"), None);
}
