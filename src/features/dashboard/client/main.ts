/// <reference lib="dom" />
/// <reference lib="dom.iterable" />
/** The script of the dashboard's pages. Without it they can be read, and their forms work one by one. */
import { drawCharts } from "./charts.ts";
import { sendForms } from "./forms.ts";
import { startLive } from "./live.ts";
import { showSaved } from "./saved.ts";
import { watchSelection } from "./selection.ts";
import { showTimes } from "./times.ts";

document.documentElement.classList.add("script");

/** What a page needs after it was loaded, and after its content has changed. */
function dress(): void {
  showTimes();
  drawCharts();
  showSaved();
}

// On a narrow screen the page's own entry of the menu may be out of sight.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
dress();
setInterval(showTimes, 1_000);
watchSelection();
const { refresh } = startLive(dress);
sendForms(refresh);
