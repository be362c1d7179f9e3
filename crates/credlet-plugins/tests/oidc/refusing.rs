//! What is not believed, and what the person is told.

use credlet_plugins::oidc::Options;

use crate::Scene;
use crate::provider::Fault;

/// One login with this fault: no token, these words, and nothing kept of it.
async fn refused(fault: Fault, words: &str) {
    let scene = Scene::new();
    scene.provider.fail(fault);
    let told = scene.refused().await;
    assert!(told.contains(words), "{fault:?}: {told}");
    let kept = scene.dir.path().join("tokens");
    if std::fs::read_dir(kept).unwrap().any(|file| file.unwrap().path().extension().is_none()) {
        assert_eq!(scene.kept()["token"], "", "{fault:?}");
    }
    scene.provider.fail(Fault::None);
}

#[tokio::test]
async fn an_issuer_of_another_name_is_not_asked_further() {
    let scene = Scene::new();
    scene.provider.fail(Fault::OtherName);
    assert!(scene.refused().await.contains("calls itself `https://evil.example`"));
    assert_eq!((scene.browser.windows(), scene.provider.seen("/auth")), (0, 0));
}

#[tokio::test]
async fn an_issuer_that_answers_nonsense_is_told_apart() {
    refused(Fault::DiscoveryHtml, "the answer of the issuer's discovery document at 127.0.0.1:").await;
    refused(Fault::DiscoveryHuge, "is larger than 1024 KiB").await;
    refused(Fault::Discovery500, "answered 500").await;
    refused(Fault::DiscoveryHangs, "did not answer within 30 s").await;
    refused(Fault::TokenHtml, "the answer of the issuer's token endpoint").await;
    refused(Fault::NoIdToken, "gave no id_token").await;
}

#[tokio::test]
async fn what_comes_back_must_be_the_answer_to_our_question() {
    refused(Fault::State, "a state that is not this login's").await;
    refused(Fault::Iss, "an answer of another issuer").await;
    refused(Fault::NoIss, "does not name the issuer").await;
    refused(Fault::TwoCodes, "neither a code nor an error").await;
    refused(Fault::Denied, "the login was refused at the issuer (access_denied)").await;
    refused(Fault::UsedCode, "did not accept the code of this login: it is too old, was used before").await;
}

#[tokio::test]
async fn a_token_that_is_not_ours_is_not_believed() {
    refused(Fault::Nonce, "its nonce is not the one of this login").await;
    refused(Fault::Issuer, "it was issued by `https://evil.example`").await;
    refused(Fault::Audience, "it is for `another third` and not for `kube`").await;
    refused(Fault::Azp, "it is for `another` and not for `kube`").await;
}

#[tokio::test]
async fn a_token_that_anybody_could_have_signed_is_not_believed() {
    refused(Fault::AlgNone, "it is signed with `none`, which proves nothing").await;
    refused(Fault::Hmac, "it is signed with `HS256`, which proves nothing").await;
    refused(Fault::OtherKey, "its signature is wrong").await;
    refused(Fault::Changed, "its signature is wrong").await;
}

#[tokio::test]
async fn a_wrong_clock_is_named() {
    refused(Fault::Expired, "it expired 60 min ago by this machine's clock, although it is new").await;
    refused(Fault::NotYet, "it is good only in ").await;
}

#[tokio::test]
async fn an_hour_off_in_either_direction_is_told_with_what_to_do() {
    for (ahead, words) in [(2 * 3600, "it expired 60 min ago"), (-3600, "it is good only in ")] {
        let scene = Scene::new();
        scene.clock.advance(ahead);
        let error = scene.run(&scene.options()).await.unwrap_err();
        assert!(error.story().contains(words), "{}", error.story());
        assert!(error.hint().unwrap().contains("set this machine's clock"));
    }
}

#[tokio::test]
async fn the_browser_shows_what_went_wrong_too() {
    let scene = Scene::new();
    scene.provider.fail(Fault::Nonce);
    scene.refused().await;
    let page = scene.browser.page().await;
    for text in ["HTTP/1.1 400", "You are not logged in", "Its nonce", "What to do"] {
        assert!(page.to_lowercase().contains(&text.to_lowercase()), "{page}");
    }
}

#[tokio::test]
async fn a_taken_port_is_named_before_a_window_opens() {
    let scene = Scene::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let options = Options { listen_address: vec![address.clone()], ..scene.options() };
    let told = scene.run(&options).await.unwrap_err().story();
    assert!(told.contains(&address), "{told}");
    assert_eq!(scene.browser.windows(), 0);
}
