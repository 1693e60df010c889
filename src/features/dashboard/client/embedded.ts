/** What the dashboard's pages load, as text. The build replaces this module by those texts. */
import { bundleScript, bundleStyle } from "./embed.ts";

export const script = bundleScript(import.meta.url);
export const style = bundleStyle(import.meta.url);
