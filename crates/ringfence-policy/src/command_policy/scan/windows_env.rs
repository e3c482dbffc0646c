/// Values that these variables have on nearly every Windows system.
pub(super) fn value(name: &[u8]) -> Option<&'static [u8]> {
    let name = name.to_ascii_lowercase();
    Some(match &*name {
        b"systemdrive" | b"homedrive" => b"C:",
        b"systemroot" | b"windir" => br"C:\Windows",
        b"comspec" => br"C:\Windows\System32\cmd.exe",
        b"programfiles" | b"programw6432" => br"C:\Program Files",
        b"programfiles(x86)" => br"C:\Program Files (x86)",
        b"programdata" | b"allusersprofile" => br"C:\ProgramData",
        b"commonprogramfiles" => br"C:\Program Files\Common Files",
        b"public" => br"C:\Users\Public",
        b"userprofile" => br"C:\Users\%me%",
        b"homepath" => br"\Users\%me%",
        b"appdata" => br"C:\Users\%me%\AppData\Roaming",
        b"localappdata" => br"C:\Users\%me%\AppData\Local",
        b"temp" | b"tmp" => br"C:\Users\%me%\AppData\Local\Temp",
        b"username" => b"%me%",
        b"os" => b"Windows_NT",
        b"pathext" => b".COM;.EXE;.BAT;.CMD;.VBS;.VBE;.JS;.JSE;.WSF;.WSH;.MSC",
        b"path" => br"C:\Windows\system32;C:\Windows;C:\Windows\System32\Wbem",
        b"psmodulepath" => {
            br"C:\Program Files\WindowsPowerShell\Modules;C:\Windows\system32\WindowsPowerShell\v1.0\Modules"
        }
        b"processor_architecture" => b"AMD64",
        b"number_of_processors" => b"4",
        _ => return None,
    })
}
