# Ordinary git work in a clone of a local repository.
set -eu
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org
export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
git -c init.defaultBranch=main init --quiet origin
(
    cd origin
    for n in 1 2 3; do
        echo "line $n" >>file
        git add file
        git commit --quiet --message "commit $n"
    done
)
git clone --quiet origin clone
cd clone
git switch --quiet --create topic HEAD~1
echo topic >topic.txt
git add topic.txt
git commit --quiet --message topic
echo changed >>topic.txt
echo untracked >new.txt
git stash push --quiet --include-untracked
git rebase --quiet main
git stash pop --quiet
git diff --stat
git status --short
git checkout --quiet -- topic.txt
git clean --quiet --force
git switch --quiet main
git merge --quiet --no-ff --message merge topic
git worktree add --quiet ../worktree topic
(cd ../worktree && echo more >>topic.txt && git commit --quiet --all --message more)
git tag v1
git branch --delete --force topic 2>/dev/null || echo 'checked out elsewhere'
git worktree remove ../worktree
git gc --quiet
git fsck --strict
git log --graph --format='%h %s' --all
git status --short --branch
