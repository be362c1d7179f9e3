//! Responses of STS.

use super::FakeReply;

/// A successful response to `AssumeRole`.
pub(crate) fn assumed(id: &str, secret: &str, token: &str, expires: &str) -> FakeReply {
    FakeReply::Status(
        200,
        format!(
            "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult><AssumedRoleUser>\
         <Arn>arn:aws:sts::1:assumed-role/x/y</Arn></AssumedRoleUser><Credentials><AccessKeyId>{id}</AccessKeyId>\
         <SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{token}</SessionToken>\
         <Expiration>{expires}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
        ),
    )
}

/// Returns an error response.
pub(crate) fn sts_error(code: &str, message: &str) -> FakeReply {
    FakeReply::Status(
        403,
        format!(
            "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
        ),
    )
}
