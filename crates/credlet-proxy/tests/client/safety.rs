//! Sockets that another user may have created are rejected.

use credlet_testkit::plugin::TestPlugin;

use super::*;

#[tokio::test]
async fn open_directory_or_socket_is_rejected() {
    for mode in [0o755, 0o770, 0o701] {
        let sandbox = ClientSandbox::new();
        let plugin = sandbox.starter();
        let client = sandbox.client(&plugin);
        within(client.ready()).await.unwrap();
        fs::set_permissions(sandbox.dir.path(), fs::Permissions::from_mode(mode)).unwrap();
        let error = sandbox.error(&client).await;
        let dir = sandbox.dir.path().display();
        assert_eq!(
            error,
            format!("cannot use the plugin's exec proxy: {dir} is open to other users (mode {mode:04o})")
        );
        assert_eq!((plugin.runs(), sandbox.server.counts().connections), (1, 0));
    }
    for mode in [0o666, 0o602, 0o660] {
        let sandbox = ClientSandbox::new();
        let tunnel = sandbox.tunnel().with_mode(mode);
        let plugin = TestPlugin::new().leaves_a_proxy(&tunnel).answers_with_proxy(tunnel.url());
        let error = sandbox.error(&sandbox.client(&plugin)).await;
        assert!(error.ends_with(&format!("s.sock is open to other users (mode {mode:04o})")), "{error}");
        assert_eq!((plugin.runs(), sandbox.server.counts().connections), (1, 0));
    }
}

#[tokio::test]
async fn symlink_and_regular_file_are_rejected() {
    let sandbox = ClientSandbox::new();
    let tunnel = sandbox.tunnel();
    let link = sandbox.other_dir().join("link");
    std::os::unix::fs::symlink(sandbox.dir.path(), &link).unwrap();
    let plugin =
        TestPlugin::new().leaves_a_proxy(&tunnel).answers_with_proxy(format!("unix://{}/s.sock", link.display()));
    let error = sandbox.error(&sandbox.client(&plugin)).await;
    assert!(error.ends_with("link is not a directory"), "{error}");

    let file = sandbox.dir.path().join("file");
    fs::write(&file, "").unwrap();
    let plugin = TestPlugin::new().answers_with_proxy(format!("unix://{}", file.display()));
    let error = sandbox.error(&sandbox.client(&plugin)).await;
    assert!(error.ends_with("file is not a socket"), "{error}");
}

// rustix sets the credentials of one thread on Linux only.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn foreign_socket_and_listener_are_rejected() {
    // Changing the user needs root.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    const NOBODY_UID: u32 = 65534;
    let sandbox = ClientSandbox::new();
    let plugin = sandbox.starter();
    let client = sandbox.client(&plugin);
    within(client.ready()).await.unwrap();
    for path in [sandbox.dir.path(), sandbox.tunnel().socket()] {
        std::os::unix::fs::chown(path, Some(NOBODY_UID), None).unwrap();
        let error = sandbox.error(&client).await;
        assert!(error.ends_with(&format!("{} belongs to another user", path.display())), "{error}");
        std::os::unix::fs::chown(path, Some(0), None).unwrap();
    }
    assert_eq!(get(&client).await, StatusCode::OK);

    // The directory belongs to root, and another user listens.
    let socket = sandbox.dir.path().join("other.sock");
    let listener =
        rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &rustix::net::SocketAddrUnix::new(&socket).unwrap()).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();
    let listener = std::thread::spawn(move || {
        // The kernel records the user of the thread that calls `listen`; other threads stay root.
        let nobody = rustix::process::Uid::from_raw(NOBODY_UID);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        rustix::net::listen(&listener, 8).unwrap();
        listener
    })
    .join()
    .unwrap();
    let plugin = TestPlugin::new().answers_with_proxy(format!("unix://{}", socket.display()));
    let error = sandbox.error(&sandbox.client(&plugin)).await;
    assert!(error.ends_with("other.sock has a listener of another user"), "{error}");
    assert_eq!(plugin.runs(), 1);
    drop(listener);
}

#[tokio::test]
async fn invalid_url_is_rejected() {
    let sandbox = ClientSandbox::new();
    for (url, reason) in [
        ("http://127.0.0.1:8001", "unsupported proxyConfig.url: http is open"),
        ("unix://@acme", "unsupported proxyConfig.url: an abstract socket"),
        ("https://127.0.0.1:8001", "invalid proxyConfig: an https url requires certificate-authority-data"),
        ("https://10.0.0.1:8001", "unsupported proxyConfig.url: https requires 127.0.0.1"),
    ] {
        let plugin = TestPlugin::new().answers_with_proxy(url);
        let error = sandbox.error(&sandbox.client(&plugin)).await;
        assert!(error.starts_with(&format!("cannot use the plugin's exec proxy: {reason}")), "{error}");
    }
    assert_eq!(sandbox.server.counts().connections, 0);
}
