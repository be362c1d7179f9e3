"""Prints the token that the own library of a cloud gets, for the comparison with credlet.

    oracle.py google FILE URL      google-auth with this credential file; URL is the address of google_peer.py
    oracle.py azure RESOURCE       azure-identity with the managed identity of the machine
    oracle.py oci DATE ARGUMENT…   oci-cli with these arguments; DATE replaces the current time
"""
import sys

kind, argument = sys.argv[1:3]
if kind == "google":
    import google.auth
    import google.auth.iam
    import google.auth.transport.requests
    import google.oauth2.credentials

    # These addresses are constants in the library.
    google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT = f"{sys.argv[3]}/token"
    google.auth.iam._IAM_ENDPOINT = sys.argv[3] + "/v1/projects/-/serviceAccounts/{}:generateAccessToken"

    scopes = ["https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/userinfo.email"]
    credentials, _ = google.auth.load_credentials_from_file(argument, scopes=scopes)
    credentials.refresh(google.auth.transport.requests.Request())
    print(credentials.token)
elif kind == "oci":
    import email.utils

    email.utils.formatdate = lambda *_, **__: argument
    from oci_cli.cli import cli

    sys.argv = ["oci", *sys.argv[3:]]
    cli()
else:
    from azure.identity import ManagedIdentityCredential

    print(ManagedIdentityCredential().get_token(f"{argument}/.default").token)
