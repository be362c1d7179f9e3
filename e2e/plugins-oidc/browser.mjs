// Logs the user ada in at oidc-provider with headless Chromium, and takes screenshots of the pages.
//
//   node browser.mjs code URL SCREENSHOTS [refuse]    authorization code flow; with `refuse`, cancels the login
//   node browser.mjs device URL CODE SCREENSHOTS      device flow: enters the user code
//
// CHROMIUM is the path of the browser, SCREENSHOTS a directory. Prints the text of the last page.
import { chromium } from 'playwright-core';

const [kind, url, ...rest] = process.argv.slice(2);
const screenshots = rest[kind === 'device' ? 1 : 0];
const refuse = rest.includes('refuse');
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-gpu'],
});
// Scripts are disabled, because the pages must work without them.
const context = await browser.newContext({
  viewport: { width: 900, height: 640 }, javaScriptEnabled: false, colorScheme: 'light',
});
const page = await context.newPage();
const screenshot = (name) => page.screenshot({ path: `${screenshots}/oidc-${name}.png` });

async function submit(selector) {
  await Promise.all([page.waitForNavigation(), page.click(selector)]);
}

async function enterAccount() {
  await page.fill('input[name=login]', 'ada');
  await page.fill('input[name=password]', 'any');
  await submit('button[type=submit]');
}

await page.goto(url);
if (kind === 'device') {
  await page.fill('input[name=user_code]', rest[0]);
  await submit('[type=submit]');
  await screenshot('device-confirm');
  await submit('button[type=submit]');
  await enterAccount();
  await submit('button[type=submit]');
  await screenshot('device-done');
} else {
  await screenshot('issuer');
  if (refuse) {
    await submit('a[href*=abort]');
    await screenshot('refused');
    await page.emulateMedia({ colorScheme: 'dark' });
    await screenshot('refused-dark');
  } else {
    await enterAccount();
    await submit('button[type=submit]');
    await screenshot('logged-in');
    await page.emulateMedia({ colorScheme: 'dark' });
    await screenshot('logged-in-dark');
    await page.setViewportSize({ width: 360, height: 640 });
    await screenshot('logged-in-narrow');
  }
}
console.log(await page.innerText('body'));
await browser.close();
