//! By a code that is typed on another device.

use credlet_plugins::oidc::{GrantType, Options};

use crate::Scene;

fn options(scene: &Scene) -> Options {
    Options { grant_type: GrantType::DeviceCode, skip_open_browser: true, ..scene.options() }
}

#[tokio::test]
async fn the_issuer_is_asked_in_its_own_rhythm_until_the_code_is_typed() {
    let scene = Scene::new();
    scene.provider.state().device_answers =
        vec!["authorization_pending", "slow_down", "authorization_pending", "slow_down"];
    scene.run(&options(&scene)).await.unwrap();
    assert_eq!(*scene.clock.slept.lock().unwrap(), [3, 3, 8, 8, 13]);
    let said = scene.heard.all();
    assert!(said.contains(&format!("{}/type", scene.provider.url)), "{said}");
    assert!(said.contains("WDJB-U+001B[2JMJHT"), "an escape sequence is seen and not obeyed: {said}");
}

#[tokio::test]
async fn a_person_who_says_no_ends_it() {
    let scene = Scene::new();
    scene.provider.state().device_answers = vec!["authorization_pending", "access_denied"];
    let told = scene.run(&options(&scene)).await.unwrap_err().story();
    assert!(told.contains("the login was refused at the issuer (access_denied)"), "{told}");
}

#[tokio::test]
async fn a_code_that_nobody_types_ends_by_the_issuers_word_or_by_its_time() {
    let scene = Scene::new();
    scene.provider.state().device_answers = vec!["expired_token"];
    assert!(scene.run(&options(&scene)).await.unwrap_err().story().contains("the code was not entered in time"));
    let scene = Scene::new();
    scene.provider.state().device_answers = vec!["authorization_pending"; 1000];
    assert!(scene.run(&options(&scene)).await.unwrap_err().story().contains("the code was not entered in time"));
    assert!(scene.provider.seen("/token") <= 200, "600 s in steps of 3 s");
}
