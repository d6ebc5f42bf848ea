// An Electron app, as electron-updater sees it: Node asks the network in Electron's place. Prints what became of
// the check and of the download, and what was asked for.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.cwd(), "app.cjs"));
const { NsisUpdater } = require("electron-updater");
const { HttpExecutor, configureRequestOptions, configureRequestUrl } = require("builder-util-runtime");
const { url, folder, version, channel, installed } = JSON.parse(process.argv[2]);
const asked = [];

class Network extends HttpExecutor {
  createRequest(options, answered) {
    asked.push([options.path, options.headers?.Range ?? null]);
    return http.request(options, answered);
  }

  download(from, destination, options) {
    const wanted = { headers: options.headers };
    configureRequestUrl(from, wanted);
    configureRequestOptions(wanted);
    return new Promise((done, failed) => {
      const callback = (error) => (error ? failed(error) : done(destination));
      this.doDownload(wanted, { destination, options, callback, onCancel: () => {}, responseHandler: null }, 0);
    });
  }
}

mkdirSync(join(folder, "paint"), { recursive: true });
const config = join(folder, "app-update.yml");
writeFileSync(config, "updaterCacheDirName: paint\n");
copyFileSync(installed, join(folder, "paint", "installer.exe"));
const updater = new NsisUpdater(null, {
  version,
  name: "Paint",
  isPackaged: true,
  appUpdateConfigPath: config,
  userDataPath: folder,
  baseCachePath: folder,
  whenReady: async () => {},
  onQuit: () => {},
});
updater.httpExecutor = new Network();
updater.logger = null;
updater.autoDownload = false;
updater._testOnlyOptions = { platform: "win32", isUseDifferentialDownload: true };
updater.on("error", () => {});
updater.setFeedURL({ provider: "generic", url, channel });
const out = { asked };
try {
  const found = await updater.checkForUpdates();
  out.version = found.updateInfo.version;
  out.isNewer = found.isUpdateAvailable;
  if (found.isUpdateAvailable) {
    const [path] = await updater.downloadUpdate();
    out.content = readFileSync(path).toString("base64");
  }
} catch (error) {
  out.error = error.code ?? String(error.message);
}
console.log(JSON.stringify(out));
