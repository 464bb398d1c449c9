complete --keep-order --exclusive --command kubectl-kapr --arguments "(COMPLETE=fish kubectl-kapr -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
