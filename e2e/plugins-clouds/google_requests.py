"""Prints requests that google_peer.py has logged (JSON objects on stdin) in a form that can be compared.

    google_requests.py normalise    path and fields of each request, without values that legitimately differ between clients
    google_requests.py assertion    header and claims of the assertion in one request, without times, and its lifetime in seconds
"""

import base64
import json
import sys


def decode(part):
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def normalise(path, fields):
    if "assertion" in fields:
        claims = decode(fields["assertion"].split(".")[1])
        fields["assertion"] = {"iss": claims["iss"], "scope": sorted(claims["scope"].split())}
    # Unlike the Go library, google-auth signs for a fixed address, sends an empty list of delegates, sends the scopes of a
    # login that has scopes already, and requests a smaller scope for the token with which it impersonates an account.
    if not fields.get("delegates"):
        fields.pop("delegates", None)
    if fields.get("grant_type") == "refresh_token":
        fields.pop("scope", None)
    if isinstance(fields.get("scope"), list):
        fields["scope"].sort()
    elif "scope" in fields:
        fields["scope"] = fields["scope"].replace("auth/iam", "auth/cloud-platform")
    print(path, json.dumps(fields, sort_keys=True))


for line in sys.stdin:
    request = json.loads(line)
    if sys.argv[1] == "normalise":
        normalise(request["path"], request["fields"])
    else:
        header, claims = map(decode, request["fields"]["assertion"].split(".")[:2])
        lifetime = claims.pop("exp") - claims.pop("iat")
        print(json.dumps([header, claims], sort_keys=True), lifetime)
