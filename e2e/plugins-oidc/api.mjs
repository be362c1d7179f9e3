// As much of an API server as shows which token kubectl came with.
// `node api.mjs PORT KEY CERT` answers every request with the token that came with it.
import { createServer } from 'node:https';
import { readFileSync } from 'node:fs';

const [port, key, cert] = process.argv.slice(2);
createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (request, response) => {
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ token: (request.headers.authorization ?? '').replace('Bearer ', '') }));
}).listen(Number(port), '127.0.0.1', () => console.log('ready'));
