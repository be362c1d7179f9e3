// A person at a headless Chromium: logs in at the page that is given, and photographs what people see.
// `node person.mjs code URL PICTURES [refuse]` or `node person.mjs device URL CODE PICTURES`
import { chromium } from 'playwright-core';

const [kind, url, ...rest] = process.argv.slice(2);
const pictures = rest[kind === 'device' ? 1 : 0];
const refuse = rest.includes('refuse');
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-gpu'],
});
// Without scripts, so that the pages are seen to work without.
const context = await browser.newContext({
  viewport: { width: 900, height: 640 }, javaScriptEnabled: false, colorScheme: 'light',
});
const page = await context.newPage();
const picture = (name) => page.screenshot({ path: `${pictures}/oidc-${name}.png` });

async function submit(selector) {
  await Promise.all([page.waitForNavigation(), page.click(selector)]);
}

async function account() {
  await page.fill('input[name=login]', 'ada');
  await page.fill('input[name=password]', 'any');
  await submit('button[type=submit]');
}

await page.goto(url);
if (kind === 'device') {
  await page.fill('input[name=user_code]', rest[0]);
  await submit('[type=submit]');
  await picture('device-confirm');
  await submit('button[type=submit]');
  await account();
  await submit('button[type=submit]');
  await picture('device-done');
} else {
  await picture('issuer');
  if (refuse) {
    await submit('a[href*=abort]');
    await picture('refused');
    await page.emulateMedia({ colorScheme: 'dark' });
    await picture('refused-dark');
  } else {
    await account();
    await submit('button[type=submit]');
    await picture('logged-in');
    await page.emulateMedia({ colorScheme: 'dark' });
    await picture('logged-in-dark');
    await page.setViewportSize({ width: 360, height: 640 });
    await picture('logged-in-narrow');
  }
}
console.log(await page.innerText('body'));
await browser.close();
