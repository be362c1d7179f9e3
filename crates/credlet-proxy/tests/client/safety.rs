//! Nobody but this user can have made the socket, or the client stays away.

use credlet_testkit::plugin::Plugin;

use super::*;

#[tokio::test]
async fn a_directory_or_socket_that_is_open_to_others_is_refused_and_no_plugin_is_run_for_it_again() {
    for mode in [0o755, 0o770, 0o701] {
        let stand = Stand::new();
        let plugin = stand.starter();
        let client = stand.client(&plugin);
        within(client.ready()).await.unwrap();
        fs::set_permissions(stand.dir.path(), fs::Permissions::from_mode(mode)).unwrap();
        let error = stand.error(&client).await;
        let dir = stand.dir.path().display();
        assert_eq!(error, format!("the plugin's proxy cannot be used: {dir} is open to other users (mode {mode:04o})"));
        assert_eq!((plugin.runs(), stand.server.counts().connections), (1, 0));
    }
    for mode in [0o666, 0o602, 0o660] {
        let stand = Stand::new();
        let tunnel = stand.tunnel().with_mode(mode);
        let plugin = Plugin::new().leaves_a_proxy(&tunnel).answers_with_proxy(tunnel.url());
        let error = stand.error(&stand.client(&plugin)).await;
        assert!(error.ends_with(&format!("s.sock is open to other users (mode {mode:04o})")), "{error}");
        assert_eq!((plugin.runs(), stand.server.counts().connections), (1, 0));
    }
}

#[tokio::test]
async fn a_link_to_a_directory_and_a_file_that_is_no_socket_are_refused() {
    let stand = Stand::new();
    let tunnel = stand.tunnel();
    let link = stand.other_dir().join("link");
    std::os::unix::fs::symlink(stand.dir.path(), &link).unwrap();
    let plugin = Plugin::new().leaves_a_proxy(&tunnel).answers_with_proxy(format!("unix://{}/s.sock", link.display()));
    let error = stand.error(&stand.client(&plugin)).await;
    assert!(error.ends_with("link is no directory"), "{error}");

    let file = stand.dir.path().join("file");
    fs::write(&file, "").unwrap();
    let plugin = Plugin::new().answers_with_proxy(format!("unix://{}", file.display()));
    let error = stand.error(&stand.client(&plugin)).await;
    assert!(error.ends_with("file is no socket"), "{error}");
}

#[tokio::test]
async fn what_belongs_to_another_user_is_refused_before_and_after_connecting() {
    // Only root can play another user.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    const NOBODY: u32 = 65534;
    let stand = Stand::new();
    let plugin = stand.starter();
    let client = stand.client(&plugin);
    within(client.ready()).await.unwrap();
    for path in [stand.dir.path(), stand.tunnel().socket()] {
        std::os::unix::fs::chown(path, Some(NOBODY), None).unwrap();
        let error = stand.error(&client).await;
        assert!(error.ends_with(&format!("{} belongs to another user", path.display())), "{error}");
        std::os::unix::fs::chown(path, Some(0), None).unwrap();
    }
    assert_eq!(get(&client).await, StatusCode::OK);

    // The place is root's, and somebody else listens there.
    let socket = stand.dir.path().join("other.sock");
    let listener =
        rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &rustix::net::SocketAddrUnix::new(&socket).unwrap()).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();
    let listener = std::thread::spawn(move || {
        // The system notes the user of the thread that says `listen`; the others of this process stay root.
        let nobody = rustix::process::Uid::from_raw(NOBODY);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        rustix::net::listen(&listener, 8).unwrap();
        listener
    })
    .join()
    .unwrap();
    let plugin = Plugin::new().answers_with_proxy(format!("unix://{}", socket.display()));
    let error = stand.error(&stand.client(&plugin)).await;
    assert!(error.ends_with("other.sock is listened at by another user"), "{error}");
    assert_eq!(plugin.runs(), 1);
    drop(listener);
}

#[tokio::test]
async fn an_address_that_is_none_is_refused_and_says_why() {
    let stand = Stand::new();
    for (url, reason) in [
        ("http://127.0.0.1:8001", "its url is http"),
        ("unix://@acme", "its url is that of an abstract socket"),
        ("https://127.0.0.1:8001", "its url is https, which takes a certificate-authority-data"),
        ("https://10.0.0.1:8001", "its url is https, but not with 127.0.0.1"),
    ] {
        let plugin = Plugin::new().answers_with_proxy(url);
        let error = stand.error(&stand.client(&plugin)).await;
        assert!(error.starts_with(&format!("the plugin's proxy cannot be used: {reason}")), "{error}");
    }
    assert_eq!(stand.server.counts().connections, 0);
}
