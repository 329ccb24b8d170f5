// Drivers do not survive a fork: a child process must not use devices that its parent opened.
#pragma once

namespace tolk {

// From now on a forked child is marked. Called once a plugin was asked for its devices.
void watch_for_fork();
// Whether this process is such a child.
bool in_forked_child();

} // namespace tolk
