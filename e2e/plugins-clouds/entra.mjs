// npm's oidc-provider in the clothes of Entra ID: its paths, its tenants, applications with a secret, with a certificate, and
// with a federated credential; beside it the id tokens of a CI and the metadata service of a virtual machine, and the agent of one that Arc manages.
// `node entra.mjs PORT TENANT SERVER SECONDS CERTIFICATE-JWK LOG` writes a line into LOG for each request.
import * as oidc from 'oidc-provider';
import { appendFileSync } from 'node:fs';
import { generateKeyPairSync, sign, verify } from 'node:crypto';
import { createServer } from 'node:http';

const [port, tenant, server, life, certificate, log] = process.argv.slice(2);
const host = `http://127.0.0.1:${port}`;
const base = `${host}/${tenant}`;
const scope = `${server}/.default`;
const device = 'urn:ietf:params:oauth:grant-type:device_code';
const key = () => generateKeyPairSync('rsa', { modulusLength: 2048 });
const robot = { grant_types: ['client_credentials'], response_types: [], redirect_uris: [], scope };

const provider = new oidc.Provider(`${base}/v2.0`, {
  clients: [
    {
      client_id: '80faf920-1908-4b52-b5ef-a8e7bedfc67a',
      token_endpoint_auth_method: 'none',
      application_type: 'native',
      grant_types: ['authorization_code', 'refresh_token', device],
      response_types: ['code'],
      redirect_uris: ['http://localhost', 'http://127.0.0.1'],
    },
    { ...robot, client_id: 'spn', client_secret: 's3cr3t-of-a-principal', token_endpoint_auth_method: 'client_secret_post' },
    {
      ...robot,
      client_id: 'certified',
      token_endpoint_auth_method: 'private_key_jwt',
      token_endpoint_auth_signing_alg: 'PS256',
      jwks: { keys: [JSON.parse(certificate)] },
    },
  ],
  jwks: { keys: [{ ...key().privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', kid: 'e2e' }] },
  cookies: { keys: ['e2e'] },
  scopes: ['openid', 'profile', 'offline_access', scope],
  routes: {
    token: `/${tenant}/oauth2/v2.0/token`,
    authorization: `/${tenant}/oauth2/v2.0/authorize`,
    device_authorization: `/${tenant}/oauth2/v2.0/devicecode`,
    code_verification: `/${tenant}/device`,
    jwks: `/${tenant}/discovery/v2.0/keys`,
  },
  enabledJWA: { clientAuthSigningAlgValues: ['PS256', 'RS256'] },
  pkce: { required: () => true },
  features: {
    devInteractions: { enabled: true },
    deviceFlow: { enabled: true },
    clientCredentials: { enabled: true },
    // Entra's access tokens are JWTs for the application that the scope names.
    resourceIndicators: {
      enabled: true,
      defaultResource: () => `api://${server}`,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope, audience: server, accessTokenTTL: Number(life), accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } }),
    },
  },
  issueRefreshToken: async (ctx, client, code) => client.grantTypeAllowed('refresh_token') && code.scopes.has('offline_access'),
  rotateRefreshToken: true,
  ttl: {
    IdToken: Number(life), AccessToken: Number(life), ClientCredentials: Number(life), AuthorizationCode: 60, DeviceCode: 120,
    RefreshToken: 3600, Session: 3600, Grant: 3600, Interaction: 600,
  },
  findAccount: async (ctx, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
});
provider.on('server_error', (ctx, error) => console.error(error));

// The CI, whose key the application `workload` trusts.
const ci = key();
const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
function jwt(claims) {
  const signed = `${part({ alg: 'RS256', typ: 'JWT' })}.${part(claims)}`;
  return `${signed}.${sign('sha256', Buffer.from(signed), ci.privateKey).toString('base64url')}`;
}
function federated(token) {
  const [head, claims, signature] = token.split('.');
  const right = verify('sha256', Buffer.from(`${head}.${claims}`), ci.publicKey, Buffer.from(signature ?? '', 'base64url'));
  const { sub, aud, exp } = right ? JSON.parse(Buffer.from(claims, 'base64url')) : {};
  return sub === 'repo:acme/app' && aud === 'api://AzureADTokenExchange' && exp > Date.now() / 1000;
}

const answer = (response, status, value) => {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(value));
};
const handle = provider.callback();
createServer(async (request, response) => {
  const url = new URL(request.url, host);
  appendFileSync(log, `${request.method} ${url.pathname}\n`);
  if (url.pathname === '/ci/token') {
    if (request.headers.authorization !== 'bearer opens-the-ci') return answer(response, 401, {});
    const now = Math.floor(Date.now() / 1000);
    return answer(response, 200, { value: jwt({ iss: `${host}/ci`, sub: 'repo:acme/app', aud: url.searchParams.get('audience'), iat: now, exp: now + 300 }) });
  }
  if (url.pathname === '/metadata/identity/oauth2/token') {
    const right = request.headers.metadata === 'true' && url.searchParams.get('resource') === server;
    if (!right) return answer(response, 400, { error: 'invalid_request' });
    const on = Math.floor(Date.now() / 1000) + 86399;
    // Numbers are texts here, as Azure has them.
    return answer(response, 200, { access_token: `of-the-machine-${url.searchParams.get('client_id') ?? 'itself'}`, expires_in: '86399', expires_on: `${on}`, resource: server, token_type: 'Bearer' });
  }
  if (url.pathname === '/arc') {
    // Its key lies where only the agent's group can read it.
    if (request.headers.metadata !== 'true' || url.searchParams.get('api-version') !== '2020-06-01') return answer(response, 400, {});
    if (request.headers.authorization !== 'Basic key-of-the-agent') {
      response.setHeader('WWW-Authenticate', 'Basic realm=/var/opt/azcmagent/tokens/e2e.key');
      return answer(response, 401, {});
    }
    const on = Math.floor(Date.now() / 1000) + 86399;
    return answer(response, 200, { access_token: `of-arc-for-${url.searchParams.get('resource')}`, expires_in: '86399', expires_on: `${on}`, token_type: 'Bearer' });
  }
  if (url.pathname.endsWith('/v2.0/.well-known/openid-configuration')) {
    const document = {
      issuer: `${base}/v2.0`,
      authorization_endpoint: `${base}/oauth2/v2.0/authorize`,
      token_endpoint: `${base}/oauth2/v2.0/token`,
      device_authorization_endpoint: `${base}/oauth2/v2.0/devicecode`,
      jwks_uri: `${base}/discovery/v2.0/keys`,
      token_endpoint_auth_methods_supported: ['client_secret_post', 'private_key_jwt', 'client_secret_basic'],
    };
    return answer(response, 200, document);
  }
  const known = [`/${tenant}/`, '/interaction/'].some((path) => url.pathname.startsWith(path));
  if (!known) return answer(response, 400, { error: 'invalid_request', error_codes: [90002] });
  // Entra shows a list of accounts for this, and asks for no consent that was given; oidc-provider knows neither.
  request.url = request.url.replace('prompt=select_account', 'prompt=consent');
  if (request.method === 'POST' && url.pathname.endsWith('/token')) {
    let body = '';
    for await (const chunk of request) body += chunk;
    const fields = new URLSearchParams(body);
    if (fields.get('client_id') === 'workload') {
      if (!federated(fields.get('client_assertion') ?? '')) return answer(response, 401, { error: 'invalid_client', error_codes: [70021] });
      body = new URLSearchParams({ grant_type: 'client_credentials', client_id: 'spn', client_secret: 's3cr3t-of-a-principal', scope: fields.get('scope') }).toString();
    }
    request.body = body;
  }
  handle(request, response);
}).listen(Number(port), '127.0.0.1', () => console.log('ready'));
