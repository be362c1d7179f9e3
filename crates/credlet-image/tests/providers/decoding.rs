use credlet_api::image::{CredentialProviderRequest, CredentialProviderResponse, ProviderApiVersion};
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;
use serde_json::Value;

use crate::{Sandbox, get, response_json};

#[test]
fn decodes_responses_like_kubelet() {
    let all: Value = serde_json::from_str(include_str!("../vectors/image.json")).unwrap();
    for case in all["responseDecodeExpectV1"].as_array().unwrap() {
        let decoded =
            CredentialProviderResponse::decode(case["stdout"].as_str().unwrap().as_bytes(), ProviderApiVersion::V1);
        assert_eq!(decoded.is_ok(), case["error"].is_null(), "{case} {decoded:?}");
    }
}

#[test]
fn response_must_be_one_json_object() {
    let good = response_json("Image", None, &[]);
    for bad in [
        format!("\u{feff}{good}"),
        format!("starting up\n{good}"),
        format!("{good}{good}"),
        format!("{good} trailing"),
        "kind: CredentialProviderResponse\napiVersion: credentialprovider.kubelet.k8s.io/v1\n".to_owned(),
        String::new(),
        "[]".to_owned(),
        good.replace("/v1\"", "/v1beta1\""),
        good.replace("CredentialProviderResponse", "WrongKind"),
        good.replace("credentialprovider.", "foobar."),
    ] {
        assert!(CredentialProviderResponse::decode(bad.as_bytes(), ProviderApiVersion::V1).is_err(), "{bad}");
    }
    assert!(CredentialProviderResponse::decode(format!(" \n{good}\n\n").as_bytes(), ProviderApiVersion::V1).is_ok());
    for version in ProviderApiVersion::ALL {
        let text = good.replace("credentialprovider.kubelet.k8s.io/v1", version.as_str());
        assert!(CredentialProviderResponse::decode(text.as_bytes(), version).is_ok());
    }
}

#[test]
fn response_error_quotes_no_value() {
    let watch = LeakCheck::new();
    let password = watch.secret("password");
    let good = response_json("Registry", None, &[("r.io", "u", password.expose())]);
    for (bad, reason) in [
        (good.replace("\"username\"", "\"user\""), "unknown field `user` in an entry of `auth`"),
        (good.replace("\"kind\"", "\"metadata\":{},\"kind\""), "unknown field `metadata` in the response"),
        (good.replace("\"kind\"", "\"cacheKeyType\":\"Image\",\"kind\""), "duplicate field `cacheKeyType`"),
        (good.replace("\"kind\"", "\"cacheDuration\":5,\"kind\""), "invalid `cacheDuration`: expected a duration"),
        (good.replace("\"u\"", "7"), "invalid `auth.*.username`: expected a string"),
        (good.replace("\"Registry\"", "\"registry\""), "invalid `cacheKeyType` `registry`"),
        (good.replace("\"cacheKeyType\":\"Registry\",", ""), "invalid `cacheKeyType` ``"),
    ] {
        let error = CredentialProviderResponse::decode(bad.as_bytes(), ProviderApiVersion::V1).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        watch.error(&error);
    }
}

#[test]
fn requests_match_kubelet_bytes() {
    let mut request = CredentialProviderRequest {
        version: ProviderApiVersion::V1,
        image: "test.registry.io/foobar".to_owned(),
        service_account_token: None,
        service_account_annotations: Default::default(),
    };
    let plain = "{\"kind\":\"CredentialProviderRequest\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
                 \"image\":\"test.registry.io/foobar\"}\n";
    assert_eq!(request.encode().as_str(), plain);
    request.service_account_token = Some("service-account-token".into());
    request.service_account_annotations =
        [("z", "<&>"), ("domain.io/annotation1", "value1")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let more = ",\"serviceAccountToken\":\"service-account-token\",\"serviceAccountAnnotations\":\
                {\"domain.io/annotation1\":\"value1\",\"z\":\"\\u003c\\u0026\\u003e\"}}\n";
    assert_eq!(request.encode().as_str(), plain.replace("}\n", "") + more);
    for version in [ProviderApiVersion::V1alpha1, ProviderApiVersion::V1beta1] {
        request.version = version;
        let expected = plain.replace("credentialprovider.kubelet.k8s.io/v1", version.as_str());
        assert_eq!(*request.encode(), expected);
    }
}

#[tokio::test]
async fn provider_gets_args_env_and_request() {
    let plugin = TestPlugin::new().reports_with_stdin().prints(response_json("Image", None, &[]));
    let more = "  args: [get, \"$HOME\", \"a b\"]\n  env:\n  - {name: SYSTEM, value: \"2\"}\n  - {name: K, value: \"1\"}\n  \
                - {name: K, value: \"$HOME\"}\n";
    let sandbox = Sandbox::new().provider("p", plugin, more);
    get(&sandbox.load(), "A.io/x:v1").await;
    let report = sandbox.plugin("p").report();
    assert_eq!(report.args, ["get", "$HOME", "a b"]);
    assert_eq!(report.env["SYSTEM"], "2");
    assert_eq!(report.env["K"], "$HOME");
    assert_eq!(report.env["HOME"], "/nowhere");
    let expected = "{\"kind\":\"CredentialProviderRequest\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
                    \"image\":\"A.io/x\"}\n";
    assert_eq!(report.stdin.as_deref(), Some(expected.as_bytes()));
}
