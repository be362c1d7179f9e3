// As much of Google as gives access tokens: the metadata server, the token endpoint (which checks signatures), STS and IAM.
// `node google.mjs PORT CERTIFICATE LOG` writes each question into LOG, a JSON object a line.
import { appendFileSync, readFileSync } from 'node:fs';
import { verify } from 'node:crypto';
import { createServer } from 'node:http';

const [port, certificate, log] = process.argv.slice(2);
const key = readFileSync(certificate);
const host = `http://127.0.0.1:${port}`;

function asserted(assertion) {
  const [head, claims, signature] = (assertion ?? '').split('.');
  const right = verify('sha256', Buffer.from(`${head}.${claims}`), key, Buffer.from(signature ?? '', 'base64url'));
  const { iss, aud, exp, iat } = right ? JSON.parse(Buffer.from(claims, 'base64url')) : {};
  const now = Date.now() / 1000;
  // Google's library for Python signs for the usual address, whatever the file says.
  const here = [`${host}/token`, 'https://oauth2.googleapis.com/token'].includes(aud);
  return right && here && iat <= now + 5 && exp > now && exp - iat <= 3600 ? iss : undefined;
}

let count = 0;
const grants = {
  'urn:ietf:params:oauth:grant-type:jwt-bearer': (fields) => asserted(fields.assertion),
  refresh_token: (fields) => ({ 'refresh-of-ada': 'ada', 'refresh-of-bob': 'bob' })[fields.refresh_token],
  'urn:ietf:params:oauth:grant-type:token-exchange': (fields) => fields.subject_token === 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzdWJqZWN0In0.c2lnbmF0dXJl' && fields.audience === '//iam/pool' && 'federated',
};

createServer(async (request, response) => {
  let body = '';
  for await (const chunk of request) body += chunk;
  const url = new URL(request.url, host);
  const json = (request.headers['content-type'] ?? '').includes('json');
  const fields = json ? JSON.parse(body) : Object.fromEntries(new URLSearchParams(body || url.search));
  appendFileSync(log, `${JSON.stringify({ agent: request.headers['user-agent'] ?? '', path: url.pathname, fields })}\n`);
  const answer = (status, value) => {
    response.writeHead(status, { 'content-type': 'application/json', 'metadata-flavor': 'Google' });
    response.end(typeof value === 'string' ? value : JSON.stringify(value));
  };
  const token = (who) => ({ access_token: `ya29.${who}.${++count}`, expires_in: 3599, token_type: 'Bearer', issued_token_type: 'urn:ietf:params:oauth:token-type:access_token' });
  if (url.pathname.startsWith('/computeMetadata/')) {
    if (request.headers['metadata-flavor'] !== 'Google') return answer(403, 'Forbidden');
    if (url.pathname.endsWith('/token')) return answer(200, token('machine'));
    return answer(url.pathname.endsWith('/email') ? 200 : 404, 'robot@p.iam.gserviceaccount.com');
  }
  if (url.pathname === '/token' || url.pathname === '/sts') {
    const who = grants[fields.grant_type]?.(fields);
    return who ? answer(200, token(who)) : answer(400, { error: 'invalid_grant' });
  }
  if (url.pathname.endsWith(':generateAccessToken')) {
    const by = /^Bearer ya29\.([^.]*)/.exec(request.headers.authorization ?? '')?.[1];
    if (!by) return answer(403, { error: { status: 'PERMISSION_DENIED' } });
    return answer(200, { accessToken: `ya29.robot-by-${by}.${++count}`, expireTime: new Date(Date.now() + 3600e3).toISOString() });
  }
  answer(404, {});
}).listen(Number(port), '127.0.0.1', () => console.log('ready'));
