# A test suite with a server on localhost, workers and child processes, then a package from a local folder.
set -eu
export npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
mkdir -p library project
cat >library/package.json <<'JSON'
{ "name": "library", "version": "1.2.3", "main": "index.js", "bin": { "library": "cli.js" } }
JSON
echo 'module.exports = name => `hello ${name}`;' >library/index.js
printf '#!/usr/bin/env node\nconsole.log(require("./index.js")("cli"));\n' >library/cli.js
chmod +x library/cli.js
cd project
cat >package.json <<'JSON'
{ "name": "project", "version": "1.0.0", "scripts": { "test": "node --test", "postinstall": "echo installed >stamp" } }
JSON
cat >work.test.js <<'JS'
const test = require("node:test");
const assert = require("node:assert");
const http = require("node:http");
const os = require("node:os");
const { execFileSync } = require("node:child_process");
const { Worker } = require("node:worker_threads");

test("a server on localhost", async () => {
  const server = http.createServer((request, response) => response.end(request.url));
  await new Promise(done => server.listen(0, "127.0.0.1", done));
  const answer = await fetch(`http://127.0.0.1:${server.address().port}/path`);
  assert.equal(await answer.text(), "/path");
  server.closeAllConnections();
  server.close();
});
test("a server on localhost by name", async () => {
  const server = http.createServer((_, response) => response.end("by name"));
  await new Promise(done => server.listen(0, "localhost", done));
  const answer = await fetch(`http://localhost:${server.address().port}/`);
  assert.equal(await answer.text(), "by name");
  server.closeAllConnections();
  server.close();
});
test("a worker", async () => {
  const worker = new Worker('require("node:worker_threads").parentPort.postMessage(6 * 7)', { eval: true });
  assert.equal(await new Promise(done => worker.once("message", done)), 42);
});
test("a child process", () => {
  assert.equal(execFileSync(process.execPath, ["-p", "1 + 1"]).toString().trim(), "2");
});
test("network interfaces can be listed", () => {
  assert.ok("lo" in os.networkInterfaces());
});
JS
npm install --silent ../library
npm install --silent
node -p 'require("library")("folder")'
npx --no-install library
cat stamp
npm test --silent -- --test-reporter=tap 2>&1 | grep -E '^# (tests|pass|fail) '
