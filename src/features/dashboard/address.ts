/** The addresses of requests, behind proxies too. */

/**
 * The path that a request asks for. A proxy that has cut off the base path names it in `X-Forwarded-Prefix`.
 * @param path as it has arrived
 */
export function wholePath({ headers }: Request, path: string, basePath: string): string {
  const isCut = basePath !== "" && headers.get("x-forwarded-prefix")?.replace(/\/+$/, "") === basePath;
  return isCut ? `${basePath}${path === "/" ? "" : path}` : path;
}

/** A path of this host: one that begins with two slashes would name another one. */
export const pathHere = (path: string): string => `/${path.replace(/^\/+/, "")}`;
