/**
 * A database target (a URL, a path, or a mistyped URL that is taken for a path) with `***` for its password: errors, logs and
 * the command line show targets only in this form.
 *
 * Without an `@` (its host was forgotten), text in place of a port that is not a number is a password, and its end is unknown.
 * In a `sqlite:` URL and in the name of a file, a colon does not begin a password.
 */
export function withoutPassword(target: string): string {
  return (
    target
      // user:password@, where the user is at the beginning or after a slash
      .replace(/((?:^(?!sqlite:)|[/\\])[^/\\:]*):(?![/\\]).*@/is, "$1:***@")
      // scheme:user:password@
      .replace(/(^[^:/]*:[^:/]*):.*@/s, "$1:***@")
      // scheme://user:password, without a host
      .replace(
        /((?:^[\s"']*|\b(?=\w+:\/))(?!sqlite:)[a-z]{2,}:\/*(?:\[[^\]]*\]|[^@/?#[])*?):(?!\d{0,5}(?:[,/?#]|$))[^@]*$/is,
        "$1:***",
      )
      .replace(/([?&]password=)[^&]*/gi, "$1***")
      // password = '…', as libpq takes it: quoted in any way, so that the rest is left out
      .replace(/((?<![?&])\bpassword\s*=\s*).*/is, "$1***")
  );
}
